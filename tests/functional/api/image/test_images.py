"""`/v2/images`: records and bytes, and what interruptions leave."""

import hashlib
import os
import resource
import struct
import uuid
from typing import Any

import msgspec
import pytest

from minova import errors
from minova.api.image.storage import recovery
from minova.context import service_context
from minova.db.api_queries import images as image_rows
from tests.functional.api.conftest import Cloud, Json

RAW = bytes(range(256)) * 4096


def files(cloud: Cloud) -> list[str]:
    return sorted(path.name for path in cloud.images.glob("*") if path.is_file()) if cloud.images.exists() else []


def make_old(cloud: Cloud) -> None:
    for path in cloud.images.glob("*.part"):
        os.utime(path, (0, 0))


def status_of(cloud: Cloud, image: Json) -> str:
    return str(cloud.get(f"/v2/images/{image['id']}")["status"])


def test_an_image_has_openstacks_shape(cloud: Cloud) -> None:
    queued = cloud.make_image("guest", data=None, hw_machine_type="q35", tags=["a", "a", "b"], min_disk=1)
    assert (queued["status"], queued["size"], queued["checksum"]) == ("queued", None, None)
    assert cloud.upload(queued["id"], RAW) == (204, None)
    image = cloud.get(f"/v2/images/{queued['id']}")
    assert image == {
        "id": queued["id"],
        "name": "guest",
        "status": "active",
        "visibility": "shared",
        "protected": False,
        "os_hidden": False,
        "owner": "admin",
        "tags": ["a", "b"],
        "disk_format": "raw",
        "container_format": "bare",
        "min_disk": 1,
        "min_ram": 0,
        "size": len(RAW),
        "virtual_size": len(RAW),
        "checksum": hashlib.md5(RAW).hexdigest(),
        "os_hash_algo": "sha256",
        "os_hash_value": hashlib.sha256(RAW).hexdigest(),
        "created_at": queued["created_at"],
        "updated_at": image["updated_at"],
        "self": f"/v2/images/{queued['id']}",
        "file": f"/v2/images/{queued['id']}/file",
        "schema": "/v2/schemas/image",
        "hw_machine_type": "q35",
    }
    assert files(cloud) == [queued["id"]]


RANGES: list[tuple[str | None, int, slice]] = [
    (None, 200, slice(None)),
    ("bytes=0-9", 206, slice(0, 10)),
    ("bytes=1000-", 206, slice(1000, None)),
    ("bytes=-7", 206, slice(-7, None)),
    (f"bytes=10-{10**9}", 206, slice(10, None)),
    ("lines=1-2", 200, slice(None)),
    ("bytes=nonsense", 200, slice(None)),
]


@pytest.mark.parametrize(("asked", "status", "part"), RANGES)
def test_bytes_come_back_whole_or_in_parts(cloud: Cloud, asked: str | None, status: int, part: slice) -> None:
    image = cloud.make_image(data=RAW)
    headers = {} if asked is None else {"Range": asked}
    result = cloud.client.simulate_get(f"/v2/images/{image['id']}/file", headers=headers)
    assert (result.status_code, result.content) == (status, RAW[part])
    assert result.headers["Content-Length"] == str(len(RAW[part]))
    if status == 206:
        first = range(len(RAW))[part][0]
        assert result.headers["Content-Range"] == f"bytes {first}-{first + len(RAW[part]) - 1}/{len(RAW)}"


def test_a_range_beyond_the_end_and_an_image_without_bytes(cloud: Cloud) -> None:
    image = cloud.make_image(data=RAW)
    assert cloud.ask("GET", f"/v2/images/{image['id']}/file", headers={"Range": f"bytes={len(RAW)}-"})[0] == 416
    empty = cloud.make_image(data=None)
    assert cloud.ask("GET", f"/v2/images/{empty['id']}/file") == (204, None)


WRONG: list[tuple[dict[str, Any], int, str]] = [
    ({"disk_format": "vmdk"}, 400, "disk_format 'vmdk' is not served"),
    ({"container_format": "ova"}, 400, "container_format 'ova'"),
    ({"name": "x" * 300}, 400, "300 characters"),
    ({"name": "a\x1bb"}, 400, "cannot be printed"),
    ({"id": "not-a-uuid"}, 400, "UUID"),
    ({"min_disk": -1}, 400, "min_disk"),
    ({"min_ram": 2**31}, 400, "min_ram"),
    ({"visibility": "secret"}, 400, "visibility"),
    ({"status": "active"}, 403, "'status' is read-only"),
    ({"size": 1}, 403, "'size' is read-only"),
    ({"prop": 5}, 400, "'prop' must be a string"),
    ({"pr\nop": "x"}, 400, "property"),
    ({"tags": ["x" * 256]}, 400, "tags"),
    ({f"p{number}": "x" for number in range(129)}, 413, "Attempted: 129, Maximum: 128"),
]


@pytest.mark.parametrize(("more", "status", "why"), WRONG)
def test_a_record_that_cannot_be(cloud: Cloud, more: dict[str, Any], status: int, why: str) -> None:
    answered, document = cloud.ask("POST", "/v2/images", {"name": "guest", **more})
    assert (answered, document["code"].split()[0]) == (status, str(status))
    assert why in document["message"]
    assert cloud.get("/v2/images")["images"] == []


def qcow2(**changes: int) -> bytes:
    """The head of an empty qcow2 of 1 GiB, spoilt as asked; its tables are missing, so that it counts as truncated."""
    fields = {"backing": 0, "size": 1 << 30, "cluster_bits": 16, "l1_size": 2, "l1": 0x30000, **changes}
    head = struct.pack(
        ">4sIQIIQIIQQIIQ",
        b"QFI\xfb", 2, fields["backing"], 8 if fields["backing"] else 0, fields["cluster_bits"], fields["size"], 0,
        fields["l1_size"], fields["l1"], 0x10000, 1, 0, 0,
    )  # fmt: skip
    return head.ljust(0x20000, b"\0")


REFUSED = {
    "empty": ("raw", b""),
    "a qcow2 said to be raw": ("raw", qcow2()),
    "raw bytes said to be qcow2": ("qcow2", RAW),
    "a truncated qcow2": ("qcow2", qcow2()),
    "a qcow2 with a backing file": ("qcow2", qcow2(backing=200)),
    "half a header": ("qcow2", b"QFI\xfb\0\0"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_bytes_that_are_not_what_was_said_leave_nothing(cloud: Cloud, what: str) -> None:
    disk_format, data = REFUSED[what]
    image = cloud.make_image(data=None, disk_format=disk_format)
    status, document = cloud.upload(image["id"], data)
    assert status == 400, what
    assert document["message"]
    assert (status_of(cloud, image), files(cloud)) == ("queued", [])


def test_an_upload_can_be_tried_again(cloud: Cloud) -> None:
    image = cloud.make_image(data=None)
    assert cloud.upload(image["id"], b"")[0] == 400
    assert cloud.upload(image["id"], RAW)[0] == 204
    assert cloud.upload(image["id"], RAW)[0] == 409
    assert (status_of(cloud, image), files(cloud)) == ("active", [image["id"]])


def test_an_upload_that_ends_early_leaves_the_image_queued(cloud: Cloud) -> None:
    image = cloud.make_image(data=None)
    status, document = cloud.upload(image["id"], RAW, **{"Content-Length": str(len(RAW) + 1)})
    assert (status, "broken off" in document["message"]) == (400, True)
    assert (status_of(cloud, image), files(cloud)) == ("queued", [])


def test_an_upload_needs_the_right_kind_and_formats(cloud: Cloud) -> None:
    image = cloud.make_image(data=None)
    path = f"/v2/images/{image['id']}/file"
    assert cloud.ask("PUT", path, RAW, headers={"Content-Type": "application/json"})[0] == 415
    _, bare = cloud.ask("POST", "/v2/images", {"name": "formless"})
    assert cloud.upload(bare["id"], RAW)[0] == 400
    assert cloud.upload(str(uuid.uuid4()), RAW)[0] == 404
    assert files(cloud) == []


def test_a_full_disk_is_told_and_the_image_queued_again(cloud: Cloud) -> None:
    image = cloud.make_image(data=None)
    # No file may grow beyond this: what the system says then is what it says of a full disk, but for one letter.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(RAW) * 3, hard))
    try:
        status, document = cloud.upload(image["id"], RAW * 4)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (status, "no room" in document["message"]) == (507, True)
    assert (status_of(cloud, image), files(cloud)) == ("queued", [])


def test_an_answer_that_is_lost_is_asked_for_again(cloud: Cloud) -> None:
    image = cloud.make_image(data=None)
    lost = iter([False, True, False])

    def lose(method: str) -> None:
        if method == "change_image" and next(lost, False):
            raise errors.ServiceUnavailable("no answer in time")

    cloud.conductor.after = lose
    assert cloud.upload(image["id"], RAW)[0] == 204
    assert (status_of(cloud, image), files(cloud)) == ("active", [image["id"]])


@pytest.mark.parametrize("telling", [1, 2], ids=["before its bytes", "with its last byte"])
def test_an_image_that_is_deleted_while_it_comes_is_gone(cloud: Cloud, telling: int) -> None:
    image = cloud.make_image(data=None)
    tellings = iter(range(1, 100))

    def deleted(method: str) -> None:
        if method == "change_image" and next(tellings) == telling:
            cloud.conductor.before = lambda method: None
            cloud.conductor.delete_image(service_context(), image_id=image["id"])

    cloud.conductor.before = deleted
    assert cloud.upload(image["id"], RAW)[0] == 404
    assert files(cloud) == []


def test_what_could_not_be_put_right_at_once_is_found_later(cloud: Cloud) -> None:
    image = cloud.make_image(data=None)
    calls = iter(range(100))

    def gone(method: str) -> None:
        if next(calls) > 0:
            raise errors.ServiceUnavailable("no answer")

    cloud.conductor.before = gone
    assert cloud.upload(image["id"], b"")[0] == 400
    cloud.conductor.before = lambda method: None
    assert status_of(cloud, image) == "saving"
    (left,) = files(cloud)
    assert left.endswith(".part")
    recovery.Recovery(cloud.app.images).recover()
    assert files(cloud) == [left], "one that young may be about to be locked"
    make_old(cloud)
    recovery.Recovery(cloud.app.images).recover()
    assert (status_of(cloud, image), files(cloud)) == ("queued", [])
    assert cloud.upload(image["id"], RAW)[0] == 204


def test_an_upload_whose_beginning_is_not_answered_is_found_later(cloud: Cloud) -> None:
    """Recovery leaves an image alone into which a second upload writes meanwhile."""
    image = cloud.make_image(data=None)

    def lose(method: str) -> None:
        raise errors.NoAnswer("no answer in time")

    cloud.conductor.after = lose
    assert cloud.upload(image["id"], RAW)[0] == 503
    cloud.conductor.after = lambda method: None
    assert (status_of(cloud, image), len(files(cloud))) == ("saving", 1)
    make_old(cloud)
    with cloud.app.images.store.begin(image["id"]):
        recovery.Recovery(cloud.app.images).recover()
        assert status_of(cloud, image) == "saving"
    assert cloud.upload(image["id"], RAW)[0] == 409
    with cloud.app.images.store.begin(image["id"]) as broken:
        broken.keep = True
    make_old(cloud)
    recovery.Recovery(cloud.app.images).recover()
    assert (status_of(cloud, image), files(cloud)) == ("queued", [])
    assert cloud.upload(image["id"], RAW)[0] == 204


def test_formats_that_go_before_the_upload_begins_are_missed(cloud: Cloud) -> None:
    image = cloud.make_image(data=None)

    def forget(method: str) -> None:
        cloud.conductor.before = lambda method: None
        seen = cloud.app.images.db.read
        with seen() as session:
            current = image_rows.image(session, image["id"])
        assert current is not None
        changed = msgspec.structs.replace(current, disk_format=None, container_format=None)
        cloud.conductor.change_image(service_context(), expected=current, image=changed)

    cloud.conductor.before = forget
    status, document = cloud.upload(image["id"], RAW)
    assert (status, "must be set first" in document["message"]) == (400, True)
    assert (status_of(cloud, image), files(cloud)) == ("queued", [])


def test_an_upload_under_way_is_left_alone(cloud: Cloud) -> None:
    image = cloud.make_image(data=None)
    with cloud.app.images.store.begin(image["id"]):
        make_old(cloud)
        recovery.Recovery(cloud.app.images).recover()
        assert len(files(cloud)) == 1
    assert files(cloud) == []


def test_a_deleted_image_is_gone_with_its_bytes(cloud: Cloud) -> None:
    image = cloud.make_image(data=RAW)
    assert cloud.ask("DELETE", f"/v2/images/{image['id']}") == (204, None)
    assert files(cloud) == []
    for method in ("GET", "DELETE"):
        assert cloud.ask(method, f"/v2/images/{image['id']}")[0] == 404
    kept = cloud.make_image(data=RAW, protected=True)
    assert cloud.ask("DELETE", f"/v2/images/{kept['id']}")[0] == 403


def test_images_are_listed_by_pages_and_filters(cloud: Cloud) -> None:
    images = [
        cloud.make_image(f"i{number}", data=RAW if number % 2 else None, tags=[f"t{number}"]) for number in range(5)
    ]

    def names(query: str) -> list[str]:
        return [image["name"] for image in cloud.get(f"/v2/images{query}")["images"]]

    assert names("") == ["i4", "i3", "i2", "i1", "i0"]
    assert names("?status=active") == ["i3", "i1"]
    assert names("?name=i2") == ["i2"]
    assert names("?name=in:i2,i3") == ["i3", "i2"]
    assert names(f"?id=in:{images[0]['id']},{images[4]['id']}") == ["i4", "i0"]
    assert names("?tag=t1") == ["i1"]
    assert names("?size_min=1&sort=created_at:asc") == ["i1", "i3"]
    assert names("?sort_key=created_at&sort_dir=asc&limit=2") == ["i0", "i1"]
    pages, page = [], cloud.get("/v2/images?limit=2&sort_dir=desc&sort_key=status")
    assert page["first"] == "/v2/images?limit=2&sort_dir=desc&sort_key=status"
    while True:
        pages.append([image["name"] for image in page["images"]])
        if "next" not in page:
            break
        page = cloud.get(page["next"])
    assert [len(page) for page in pages] == [2, 2, 1]
    assert len({name for page in pages for name in page}) == 5


@pytest.mark.parametrize("query", ["limit=-1", "limit=x", "marker=none", "sort=colour", "sort=name:up", "size_min=x"])
def test_a_query_that_cannot_be_read(cloud: Cloud, query: str) -> None:
    status, document = cloud.ask("GET", f"/v2/images?{query}")
    assert (status, document["title"]) == (400, "Bad Request")
