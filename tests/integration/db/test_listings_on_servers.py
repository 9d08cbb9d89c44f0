"""Listings of servers and images by every sort key and pattern, on servers of databases."""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import select

from minova.context import service_context
from minova.db import models
from minova.db.api_queries import images, instances
from minova.objects.catalogue.image import Image
from tests.functional.api.conftest import Cloud


@pytest.fixture(params=["postgresql", "mariadb"])
def cloud(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cloud]:
    fresh: Callable[[], str] = request.getfixturevalue(f"fresh_{request.param}_url")
    cloud = Cloud(tmp_path, url=fresh()).with_catalogue()
    yield cloud
    cloud.close()


def pages(cloud: Cloud, path: str, key: str) -> list[str]:
    listed_names, after = [], path
    while after:
        page = cloud.get(after)
        listed_names += [each["name"] for each in page[key]]
        linked = page.get("servers_links")
        after = linked[0]["href"].removeprefix("http://localhost") if linked else page.get("next", "")
    return listed_names


def test_pages_by_every_key_and_what_patterns_find(cloud: Cloud) -> None:
    launched = datetime(2026, 1, 31, 12)  # noqa: DTZ001  - as the database keeps times
    for number in range(3):
        server = cloud.make_server(f"s{number}", **{"OS-DCF:diskConfig": "AUTO" if number == 2 else "MANUAL"})
        if number == 1:
            cloud.conductor.edit(
                server["id"], host="h", node="n", key_name="k", launched_at=launched, config_drive=True
            )
    for key in instances.SORT_KEYS:
        for direction in ("asc", "desc"):
            query = f"/v2.1/servers?limit=1&sort_key={key}&sort_dir={direction}"
            assert sorted(pages(cloud, query, "servers")) == ["s0", "s1", "s2"], key
    names_by_query = {
        "name=^s[12]$": ["s2", "s1"],
        "launched_at=T12:00": ["s1"],
        "key_name=K": ["s1"],
        "config_drive=no": ["s2", "s0"],
        "auto_disk_config=1": ["s2"],
        "kernel_id=^$": ["s2", "s1", "s0"],
    }
    assert {query: pages(cloud, f"/v2.1/servers?{query}", "servers") for query in names_by_query} == names_by_query

    cloud.make_image("small", data=b"\0" * 512)
    cloud.make_image("absent", data=None, min_ram=64)
    with cloud.db.write() as session:
        # As a release stored it that did not refuse the character.
        for image in session.scalars(select(models.Image)):
            image.value = msgspec.structs.replace(image.value, properties={"x": "a\0b"})
    for key in images.SORT_KEYS:
        assert sorted(pages(cloud, f"/v2/images?limit=1&sort={key}:asc", "images")) == ["absent", "guest", "small"], key
    assert pages(cloud, "/v2/images?sort=size:asc", "images") == ["absent", "small", "guest"]
    assert pages(cloud, "/v2/images?sort=name:desc", "images") == ["small", "guest", "absent"]


def test_images_of_another_service(cloud: Cloud) -> None:
    cloud.conductor.create_image(service_context(), image=Image(id="1", owner="admin", service="glance"))
    with cloud.readonly.read() as session:
        assert [image.id for image in images.of_service(session, "glance")] == ["1"]
