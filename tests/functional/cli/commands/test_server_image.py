"""`minova server image create` and `server backup create`."""

from typing import Any

import pytest

from tests.fakes.faulty_api import FaultyApi
from tests.functional.api.conftest import Cloud
from tests.functional.cli.conftest import Cli, json_output
from tests.functional.cli.servers import Reports, add_server


@pytest.fixture(autouse=True)
def reports(cloud: Cloud, faulty_api: FaultyApi) -> Reports:
    return Reports(cloud.with_catalogue(), faulty_api)


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
def test_the_image_is_shown(cloud: Cloud, faulty_api: FaultyApi, faulty_cli: Cli, words: list[str], body: Any) -> None:
    add_server(cloud, "one")
    shown = json_output(faulty_cli("server", *words, "--wait", "-f", "json"))
    assert [sent for method, _, sent in faulty_api.requests if method == "POST"] == [body]
    (image,) = [image for image in cloud.get("/v2/images")["images"] if image["name"] != "guest"]
    assert (shown["id"], shown["status"], image["status"]) == (image["id"], "active", "active")


def test_an_image_that_is_not_made_is_an_error_with_its_reason(cloud: Cloud, reports: Reports, faulty_cli: Cli) -> None:
    add_server(cloud, "one")
    reports.failures["snapshot"] = "DiskFull"
    result = faulty_cli("server", "image", "create", "one", "--wait")
    assert result.code == 1
    assert "was not made into an image, it is ACTIVE: There is no disk space left on the host." in result.err
