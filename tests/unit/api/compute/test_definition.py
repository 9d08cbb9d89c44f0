"""The project of a request."""

import pytest

from minova import errors
from minova.api.compute.definition import project_of
from minova.api.policies.users import Identity


def identity(project_id: str | None) -> Identity:
    return Identity(user_id="u", project_id=project_id, roles=())


def test_project_comes_from_credentials_or_path() -> None:
    assert project_of(identity("p"), None) == "p"
    assert project_of(identity("p"), "p") == "p"
    assert project_of(identity(None), "q") == "q"
    assert project_of(identity(None), None) == "admin"


@pytest.mark.parametrize(("credentials", "in_path"), [("p", "q"), (None, "a b"), (None, "<x>"), (None, "x" * 256)])
def test_another_project_in_the_path_is_refused(credentials: str | None, in_path: str) -> None:
    with pytest.raises(errors.BadRequest, match="Malformed request URL"):
        project_of(identity(credentials), in_path)
