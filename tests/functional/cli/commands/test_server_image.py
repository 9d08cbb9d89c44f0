"""`minova server image create` and `server backup create` against an API that makes images."""

from typing import Any

import pytest

from tests.fakes.api_server import ApiServer
from tests.functional.cli.conftest import Cli


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (["image", "create", "one"], {"createImage": {"name": "one"}}),
        (
            ["image", "create", "one", "--name", "shot", "--property", "a=b"],
            {"createImage": {"name": "shot", "metadata": {"a": "b"}}},
        ),
        (["backup", "create", "one"], {"createBackup": {"name": "one", "backup_type": "", "rotation": 1}}),
        (
            ["backup", "create", "one", "--name", "b", "--type", "daily", "--rotate", "7"],
            {"createBackup": {"name": "b", "backup_type": "daily", "rotation": 7}},
        ),
    ],
)
def test_the_image_is_shown(api: ApiServer, cli: Cli, words: list[str], body: Any) -> None:
    api.add_server("one")
    result = cli("server", *words, "--wait", "-f", "json")
    assert result.code == 0, result.err
    assert [sent for method, _, sent in api.requests if method == "POST"] == [body]
    (image,) = api.images.values()
    assert f'"{image["id"]}"' in result.out
    assert '"active"' in result.out


def test_an_image_that_is_not_made_is_an_error_with_its_reason(api: ApiServer, cli: Cli) -> None:
    api.add_server("one")
    api.action_messages["createImage"] = (
        "The server could not be made into an image. There is no disk space left on the host."
    )
    result = cli("server", "image", "create", "one", "--wait")
    assert result.code == 1
    assert (
        "was not made into an image, it is ACTIVE: The server could not be made into an image. There is no disk"
        in result.err
    )
