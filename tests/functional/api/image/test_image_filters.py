"""Listing images: by any field, by properties, in any order."""

from typing import Any

import pytest

from minova.db.api_queries.images import SORT_KEYS
from tests.functional.api.conftest import Cloud


def names(cloud: Cloud, query: str) -> list[str]:
    answer: Any = cloud.get("/v2/images", query_string=query)
    return [image["name"] for image in answer["images"]]


@pytest.fixture
def images(cloud: Cloud) -> Cloud:
    cloud.make_image("sid", data=None, os_distro="debian", os_version="13", min_ram=64)
    cloud.make_image("noble", data=None, os_distro="ubuntu", min_disk=9)
    cloud.make_image("plain", protected=True)
    return cloud


FILTERS = {
    "os_distro=debian": ["sid"],
    "os_distro=debian&os_version=13": ["sid"],
    "os_distro=debian&os_version=12": [],
    "os_distro=": [],
    "os_type=linux": [],
    "min_ram=64": ["sid"],
    "min_disk=9": ["noble"],
    "size=1024": ["plain"],
    "protected=true": ["plain"],
    "checksum=none-such": [],
    "created_at=lt:2001-01-01T00:00:00Z": [],
    "created_at=gte:2001-01-01T00:00:00Z": ["sid", "plain", "noble"],
    "updated_at=2001-01-01T00:00:00Z": [],
    "marker=": ["sid", "plain", "noble"],
    "member_status=all": ["sid", "plain", "noble"],
}


@pytest.mark.parametrize(("query", "expected"), FILTERS.items())
def test_every_parameter_filters(images: Cloud, query: str, expected: list[str]) -> None:
    assert names(images, f"{query}&sort=name:desc") == expected


@pytest.mark.parametrize("query", ["created_at=yesterday", "created_at=gt:", "sort=password:asc", "marker=nothing"])
def test_what_cannot_be_read_is_refused(images: Cloud, query: str) -> None:
    assert images.ask("GET", "/v2/images", query_string=query)[0] == 400


ORDERS = {
    "sort=name:asc": ["noble", "plain", "sid"],
    "sort_key=name&sort_dir=desc": ["sid", "plain", "noble"],
    "sort=size:desc,name:asc": ["plain", "noble", "sid"],
    "sort=min_disk:desc,name:desc": ["noble", "sid", "plain"],
}


@pytest.mark.parametrize(("query", "expected"), ORDERS.items())
def test_images_are_sorted_by_name_and_size(images: Cloud, query: str, expected: list[str]) -> None:
    assert names(images, query) == expected


@pytest.mark.parametrize("key", SORT_KEYS)
def test_pages_in_any_order_hold_every_image_once(images: Cloud, key: str) -> None:
    image_names, path = [], f"/v2/images?limit=1&sort={key}:asc"
    while path:
        page = images.get(path)
        image_names += [image["name"] for image in page["images"]]
        path = page.get("next", "")
    assert sorted(image_names) == ["noble", "plain", "sid"]


def test_schemas_describe_one_image_and_a_list(cloud: Cloud) -> None:
    image, several = cloud.get("/v2/schemas/image"), cloud.get("/v2/schemas/images")
    shown = cloud.make_image(data=None)
    assert image["name"] == "image"
    assert shown.keys() <= image["properties"].keys()
    assert several["name"] == "images"
    assert several["properties"]["images"]["items"] == image


def test_only_served_versions_are_listed(cloud: Cloud) -> None:
    for path in ("/v2", "/image", "/versions"):
        versions = cloud.ask("GET", path)[1]["versions"]
        listed = [(version["id"], version["status"]) for version in versions]
        assert listed == [("v2.7", "CURRENT"), *((f"v2.{minor}", "SUPPORTED") for minor in range(6, -1, -1))]
