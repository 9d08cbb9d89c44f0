"""The API removed the bytes of every image that its database did not know: after the restore of a backup all newer images, and with
another cloud's database all images.
"""

import os
from pathlib import Path

import pytest
from sqlalchemy import delete

from minova import errors
from minova.api.image import recovery
from minova.db.models import DeletedImage, Image
from tests.functional.api.conftest import Cloud

RAW = b"\0" * 4096


def files(cloud: Cloud) -> set[str]:
    return {path.name for path in cloud.images.iterdir()}


def make_old(cloud: Cloud) -> None:
    for path in cloud.images.iterdir():
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
    rounds = recovery.Recovery(cloud.app.images)
    rounds.recover()
    rounds.recover()
    assert files(cloud) == {image["id"]}
    assert caplog.text.count(image["id"]) == 1, "each unknown image is logged once"


def test_bytes_of_a_deleted_image_go(cloud: Cloud) -> None:
    kept, image = cloud.make_image(data=RAW), cloud.make_image(data=RAW)
    cloud.conductor.delete_image(None, image_id=image["id"])  # type: ignore[arg-type]
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
