"""Which API and resource a path means."""

import pytest

from minova.api.app import ResourcePath, resource_path

RESOURCES = frozenset({"servers", "flavors", "os-services"})
PATHS = {
    "/": ("/", None),
    "": ("/", None),
    "/v2.1/": ("/v2.1", None),
    "/v2.1/servers/": ("/v2.1/servers", None),
    "/v2.1/servers/detail": ("/v2.1/servers/detail", None),
    "/v2.1/6f70656e737461636b20342065766572/servers/detail": (
        "/v2.1/servers/detail",
        "6f70656e737461636b20342065766572",
    ),
    "/v2.1/demo/flavors": ("/v2.1/flavors", "demo"),
    "/v2.1/servers/servers": ("/v2.1/servers/servers", None),
    "/v2.1/demo/nothing": ("/v2.1/demo/nothing", None),
    "/compute/v2.1/servers": ("/v2.1/servers", None),
    "/image/v2/images": ("/v2/images", None),
    "/image": ("/image", None),
}


@pytest.mark.parametrize(("path", "expected"), PATHS.items())
def test_a_path_loses_its_prefix_and_its_project_id(path: str, expected: tuple[str, str | None]) -> None:
    assert resource_path(path, RESOURCES) == ResourcePath(path=expected[0], project_id=expected[1])
