"""`..` as the last part of a path is the resource above it, and HTTP clients ask for that one: `server ssh` ended with a KeyError when the
server's key pair had this name, and the removal of a property went to the path of its server.
"""

import pytest

from minova.cli.client import part
from minova.cli.errors import ApiError
from tests.functional.api.conftest import Cloud
from tests.functional.cli.conftest import Cli, succeed
from tests.functional.cli.servers import add_server, server_names


@pytest.mark.parametrize("name", [".", ".."])
def test_removing_a_property_of_dots_deletes_no_server(cloud: Cloud, minova: Cli, name: str) -> None:
    add_server(cloud.with_catalogue(), "web")
    succeed(minova("server", "set", "web", "--property", f"{name}=x"))
    result = minova("server", "unset", "web", "--property", name)
    assert (result.code, f"{name!r} is no name that a request can have in its path." in result.err) == (1, True), result
    assert server_names(cloud) == ["web"]


def test_other_names_are_quoted() -> None:
    assert [part(text) for text in ("...", "a/b", ".a")] == ["...", "a%2Fb", ".a"]
    with pytest.raises(ApiError):
        part("..")
