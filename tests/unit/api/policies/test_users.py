"""Projects and roles of users, from the options."""

import pytest

from minova import errors
from minova.api.policies.users import Identity, Users

ALL = ("admin", "manager", "member", "reader")


def test_user_without_an_entry_is_member_of_the_project_of_that_name() -> None:
    assert Users([], []).identity("alice") == Identity(user_id="alice", project_id="alice", roles=("member", "reader"))


def test_administrator_has_all_roles() -> None:
    assert Users(["admin"], []).identity("admin").roles == ALL


@pytest.mark.parametrize(
    ("assignments", "project", "roles"),
    [
        (["rita:demo:reader"], "demo", ("reader",)),
        (["rita:demo:Member"], "demo", ("member", "reader")),
        (["rita:demo:reader", "rita:demo:auditor"], "demo", ("reader", "auditor")),
        (["rita : demo : manager"], "demo", ("manager", "member", "reader")),
        (["bob:demo:member"], "rita", ("member", "reader")),
    ],
)
def test_assignments(assignments: list[str], project: str, roles: tuple[str, ...]) -> None:
    assert Users([], assignments).identity("rita") == Identity(user_id="rita", project_id=project, roles=roles)


def test_administrator_keeps_the_assigned_project() -> None:
    identity = Users(["rita"], ["rita:demo:reader"]).identity("rita")
    assert (identity.project_id, set(identity.roles)) == ("demo", set(ALL))


@pytest.mark.parametrize("assignment", ["rita", "rita:demo", "rita:demo:reader:more", ":demo:reader", "rita::reader"])
def test_malformed_assignment_is_refused(assignment: str) -> None:
    with pytest.raises(errors.InvalidConfiguration, match="USER:PROJECT:ROLE"):
        Users([], [assignment])


def test_user_in_two_projects_is_refused() -> None:
    with pytest.raises(errors.InvalidConfiguration, match="rita is in the projects demo and other"):
        Users([], ["rita:demo:reader", "rita:other:reader"])
