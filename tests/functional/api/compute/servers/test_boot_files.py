"""Images that want to be booted from a kernel of their own."""

import uuid
from typing import Any

import pytest

from minova.objects.catalogue.kernel_boot import columns_of
from tests.functional.api.conftest import Cloud

LINE = "root=/dev/vda1 console=ttyS0"


def create(cloud: Cloud, image_id: str) -> tuple[int, Any]:
    body = {"name": "vm", "flavorRef": cloud.make_flavor("one")["id"], "imageRef": image_id}
    return cloud.ask("POST", "/v2.1/servers", {"server": body})


def test_the_server_gets_the_records_of_its_kernel_and_ramdisk(stocked: Cloud) -> None:
    kernel, ramdisk = (stocked.make_image(name)["id"] for name in ("kernel", "ramdisk"))
    image = stocked.make_image("guest", kernel_id=kernel, ramdisk_id=ramdisk, os_command_line=LINE)["id"]
    assert create(stocked, image)[0] == 202
    sent = stocked.conductor.requests[-1].image
    assert sent is not None
    assert sent.id == image
    assert [each.id for each in sent.boot_files] == [kernel, ramdisk]
    assert all(each.os_hash_value for each in sent.boot_files)
    server = stocked.make_server("other")
    stocked.conductor.edit(server["id"], vm_state="active", task_state=None, host="h1", node="h1")
    status, answer = stocked.ask("POST", f"/v2.1/servers/{server['id']}/action", {"rebuild": {"imageRef": image}})
    assert status == 202, answer
    assert "kernel" in str(stocked.conductor.actions[-1][2])


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"kernel_id": str(uuid.uuid4())}, "Can not find requested image"),
        ({"kernel_id": "no-uuid"}, "Can not find requested image: no-uuid"),
        ({"ramdisk_id": str(uuid.uuid4())}, "Image property ramdisk_id: it needs kernel_id"),
        ({"os_command_line": "quiet"}, "Image property os_command_line: it needs kernel_id"),
        ({"kernel_id": "KERNEL", "os_command_line": "a\x01b"}, "Image property os_command_line: it must be printable"),
        ({"kernel_id": "QUEUED"}, "its status is queued"),
    ],
)
def test_a_kernel_that_cannot_be_used_is_a_bad_request(stocked: Cloud, properties: dict[str, str], why: str) -> None:
    image_ids = {"KERNEL": stocked.make_image("kernel")["id"], "QUEUED": stocked.make_image("queued", data=None)["id"]}
    image = stocked.make_image("guest", **{key: image_ids.get(text, text) for key, text in properties.items()})["id"]
    status, answer = create(stocked, image)
    assert (status, why in str(answer)) == (400, True), answer


def test_an_image_may_say_that_it_has_no_kernel(stocked: Cloud) -> None:
    """As in Nova: images of old Glances have such values."""
    image = stocked.make_image("guest", kernel_id="nokernel", ramdisk_id="noramdisk")["id"]
    assert create(stocked, image)[0] == 202
    sent = stocked.conductor.requests[-1].image
    assert sent is not None
    assert sent.boot_files == ()
    assert columns_of(sent) == {"kernel_id": "", "ramdisk_id": ""}
