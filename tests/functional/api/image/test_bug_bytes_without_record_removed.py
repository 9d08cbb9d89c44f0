"""The API removed the bytes of every image that its database did not know: after the restore of a backup all newer images, and with
another cloud's database all images.
"""

import json
import os
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import delete

from minova import errors
from minova.api.image.storage import recovery
from minova.api.image.storage.store_reports import StoreReports
from minova.conductor.unexpected.images import adopt_image, remove_image
from minova.conductor.unexpected.listing import now
from minova.context import service_context
from minova.db.models import DeletedImage, Image, UnexpectedImage
from minova.db.recovery import unexpected
from tests.functional.api.conftest import Cloud

RAW = b"\0" * 4096


def files(cloud: Cloud) -> set[str]:
    return {path.name for path in cloud.images.iterdir() if path.is_file()}


def make_old(cloud: Cloud) -> None:
    for path in cloud.images.glob("*"):
        os.utime(path, (0, 0))


def test_an_api_with_an_empty_database_removes_nothing(cloud: Cloud, tmp_path: Path) -> None:
    images = {cloud.make_image(f"image {number}", data=RAW)["id"] for number in range(3)}
    make_old(cloud)
    (tmp_path / "other").mkdir()
    other = Cloud(tmp_path / "other")
    (tmp_path / "other" / "images").symlink_to(cloud.images)
    rounds = recovery.Recovery(other.app.images)
    for _ in range(2):
        rounds.recover()
        assert files(cloud) == images
    other.close()


def test_bytes_that_are_newer_than_the_database_stay(cloud: Cloud, caplog: pytest.LogCaptureFixture) -> None:
    image = cloud.make_image(data=RAW)
    with cloud.db.write() as session:  # a backup has neither the record nor a deletion
        session.execute(delete(Image))
    make_old(cloud)
    reports = StoreReports(cloud.app.images, "api")
    for _ in range(2):
        recovery.Recovery(cloud.app.images).recover()
        reports.report()
    assert files(cloud) == {image["id"]}
    assert caplog.text.count(f"left as they are: {image['id']}") == 1, "each unknown image is logged once"


def test_an_image_that_the_database_lost_is_adopted(cloud: Cloud) -> None:
    image = cloud.make_image("golden", data=RAW, tags=["one"], os_type="linux")
    with cloud.db.write() as session:
        session.execute(delete(Image))
    make_old(cloud)
    StoreReports(cloud.app.images, "api").report()
    assert [(leftover.id, leftover.store, leftover.reason) for leftover in reported(cloud)] == [
        (image["id"], "api", "no_row")
    ]
    cloud.db.run(lambda session: adopt_image(session, image["id"], now()))
    adopted = cloud.get(f"/v2/images/{image['id']}")
    assert {**adopted, "updated_at": None} == {**image, "updated_at": None}
    StoreReports(cloud.app.images, "api").report()
    assert reported(cloud) == []


def test_an_image_whose_record_waits_again_keeps_its_bytes(cloud: Cloud) -> None:
    """The backup is from before the upload."""
    image = cloud.make_image(data=RAW)
    set_status(cloud, image["id"], "queued")
    make_old(cloud)
    recovery.Recovery(cloud.app.images).recover()
    StoreReports(cloud.app.images, "api").report()
    assert [(leftover.id, leftover.reason) for leftover in reported(cloud)] == [(image["id"], "newer")]
    assert cloud.upload(image["id"], b"other")[0] == 409
    assert (cloud.images / image["id"]).read_bytes() == RAW
    cloud.db.run(lambda session: adopt_image(session, image["id"], now()))
    assert cloud.get(f"/v2/images/{image['id']}")["status"] == "active"


def test_an_image_that_an_operator_removes_goes(cloud: Cloud) -> None:
    image = cloud.make_image(data=RAW)
    with cloud.db.write() as session:
        session.execute(delete(Image))
    make_old(cloud)
    reports = StoreReports(cloud.app.images, "api")
    reports.report()
    cloud.db.run(lambda session: remove_image(session, image["id"], now()))
    reports.report()
    recovery.Recovery(cloud.app.images).recover()
    assert files(cloud) == set()
    assert reported(cloud) == []


def test_a_record_beside_the_bytes_follows_its_image(cloud: Cloud) -> None:
    image = cloud.make_image(data=RAW)
    store, reports = cloud.app.images.store, StoreReports(cloud.app.images, "api")
    make_old(cloud)
    patch = [{"op": "replace", "path": "/name", "value": "renamed"}]
    headers = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
    assert cloud.ask("PATCH", f"/v2/images/{image['id']}", json.dumps(patch).encode(), headers=headers)[0] == 200
    reports.report()
    record = store.record(image["id"])
    assert record is not None
    assert record.name == "renamed"
    assert cloud.ask("DELETE", f"/v2/images/{image['id']}")[0] == 204
    assert store.record(image["id"]) is None


def reported(cloud: Cloud) -> list[UnexpectedImage]:
    with cloud.db.read() as session:
        return unexpected.images(session)


def set_status(cloud: Cloud, image_id: str, status: str) -> None:
    with cloud.db.write() as session:
        row = session.get(Image, image_id)
        assert row is not None
        row.status, row.value = status, msgspec.structs.replace(row.value, status=status, size=None)


def test_bytes_of_a_deleted_image_go(cloud: Cloud) -> None:
    kept, image = cloud.make_image(data=RAW), cloud.make_image(data=RAW)
    cloud.conductor.delete_image(service_context(), image_id=image["id"])
    make_old(cloud)
    recovery.Recovery(cloud.app.images).recover()
    assert files(cloud) == {kept["id"]}


def test_an_upload_whose_record_was_lost_keeps_its_bytes(cloud: Cloud) -> None:
    """The database goes back in time during the upload."""
    image = cloud.make_image(data=None)
    calls = iter(range(100))

    def restore(method: str) -> None:
        if next(calls) == 1:
            with cloud.db.write() as session:
                session.execute(delete(Image))
            raise errors.NotFound("no such image")

    cloud.conductor.before = restore
    assert cloud.upload(image["id"], RAW)[0] == 404
    assert files(cloud) == {image["id"]}


def test_too_many_removals_wait_for_an_operator(cloud: Cloud, caplog: pytest.LogCaptureFixture) -> None:
    images = {cloud.make_image(f"image {number}", data=RAW)["id"] for number in range(3)}
    with cloud.db.write() as session:
        session.execute(delete(Image))
        session.add_all(DeletedImage(id=image_id) for image_id in images)
    make_old(cloud)
    cloud.conf.set_override("max_automatic_image_removals", 2, group="api")
    rounds = recovery.Recovery(cloud.app.images)
    rounds.recover()
    rounds.recover()
    assert files(cloud) == images
    assert [record.levelname for record in caplog.records if "max_automatic_image_removals" in record.message] == [
        "ERROR"
    ]
    cloud.conf.set_override("max_automatic_image_removals", 3, group="api")
    rounds.recover()
    assert files(cloud) == set()
