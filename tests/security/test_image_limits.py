"""How much of the image store's disk uploads may take: each image, and all of them together."""

import io
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from minova.errors import DiskFull
from minova.virt.disk_space import require_room
from tests.functional.api.conftest import Cloud

MB = 1 << 20
CAP = 2 * MB


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    cloud = Cloud(tmp_path, image_size_cap=CAP)
    yield cloud
    cloud.close()


class Unread(io.RawIOBase):
    """A body of whatever length; it notes how much of it was read."""

    def __init__(self, size: int) -> None:
        self.left, self.taken = size, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        given = min(self.left, MB if size < 0 else size)
        self.left -= given
        self.taken += given
        return bytes(given)


def upload(cloud: Cloud, size: int, *, announced: bool) -> tuple[int, str, str, Unread]:
    """(status, message, status of the image afterwards, the body)."""
    image = cloud.make_image(data=None)
    path, body = f"/v2/images/{image['id']}/file", Unread(size)
    headers = {"Content-Type": "application/octet-stream"}
    headers |= {"Content-Length": str(size)} if announced else {"Transfer-Encoding": "chunked"}
    result = cloud.client.simulate_request(
        "PUT", path, headers=headers, extras={"wsgi.input": body, "wsgi.input_terminated": True}
    )
    after = cloud.get(f"/v2/images/{image['id']}")
    return result.status_code, result.text, after["status"], body


def left(cloud: Cloud) -> list[str]:
    return sorted(path.name for path in cloud.images.glob("*") if path.is_file()) if cloud.images.exists() else []


def test_image_of_the_cap_is_taken(cloud: Cloud) -> None:
    for announced in (True, False):
        status, _, after, _ = upload(cloud, CAP, announced=announced)
        assert (status, after) == (204, "active")


@pytest.mark.parametrize("announced", [True, False])
def test_larger_image_is_refused_and_leaves_nothing(cloud: Cloud, announced: bool) -> None:
    status, message, after, body = upload(cloud, 64 * CAP, announced=announced)
    assert (status, after, left(cloud)) == (413, "queued", [])
    assert f"larger than {CAP} bytes" in message
    # What is announced is not even read, but for what lets the client see the answer.
    assert body.taken <= CAP + 2 * MB


@pytest.mark.parametrize("announced", [True, False])
def test_upload_that_would_take_the_reserve_is_refused_and_leaves_nothing(cloud: Cloud, announced: bool) -> None:
    cloud.conf.set_override("free_space_reserve_mb", 1 << 40)
    status, message, after, _ = upload(cloud, MB, announced=announced)
    assert (status, after, left(cloud)) == (507, "queued", [])
    assert "There is no room left in the image store." in message
    assert str(cloud.images) not in message
    cloud.conf.clear_override("free_space_reserve_mb")
    assert upload(cloud, MB, announced=announced)[0] == 204


def test_reserve_is_kept_to_the_byte(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    require_room(tmp_path, 0, 0, "x")
    with pytest.raises(DiskFull, match=r"x: 1 more bytes > 0 of \d+ bytes free"):
        require_room(tmp_path, 1, 2 * free, "x")
