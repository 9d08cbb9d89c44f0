"""PostgreSQL reads no field of a JSON text with the character U+0000: one such row made scheduling and backups fail for everybody."""

from collections.abc import Iterator
from datetime import datetime

import msgspec
import pytest

from minova.db.catalogue import images
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.manager import SchedulerManager
from tests.functional.conductor.conductor_harness import CTX, FLAVOR, IMAGE, ConductorHarness

AT = datetime(2026, 1, 31, 12)  # noqa: DTZ001  - as the database keeps times
SMALL = msgspec.structs.replace(FLAVOR, root_gb=0)
OTHER = "5d3c4f3c-0000-4000-8000-000000000009"


@pytest.fixture
def harness(postgresql_tables: str) -> Iterator[ConductorHarness]:
    harness = ConductorHarness(postgresql_tables)
    yield harness
    harness.close()


def test_request_with_nul_that_waits_stops_no_other_request(harness: ConductorHarness) -> None:
    nul = msgspec.structs.replace(IMAGE, properties={"x": "a\0b"})
    harness.create(image=nul, scheduler_hints={"foo": "a\0b"})
    scheduler = SchedulerManager(harness.conf(), harness.db, None, host="s")
    spec = RequestSpec(flavor=SMALL, image=IMAGE, instance_uuid=OTHER, project_id="q", user_id="u")
    answer = scheduler.preview_destinations(CTX, spec=spec, instance_uuids=(OTHER,))
    assert len(answer.selections) == 1


def test_images_of_an_owner_are_found_beside_one_with_nul(harness: ConductorHarness) -> None:
    with harness.db.write() as session:
        for name, owner in (("one", "bob"), ("two", "alice")):
            image = msgspec.structs.replace(IMAGE, id=name, owner=owner, properties={"x": "a\0b", "y": "z"})
            images.add(session, image, AT)
    with harness.db.write() as session:
        assert [image.id for image in images.of_owner(session, "bob", {"y": "z"})] == ["one"]
