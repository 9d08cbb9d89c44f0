"""`rescue`: which image the guest boots from, and where its disk is."""

from typing import Any

import pytest

from minova.objects.actions.rescue import RescueDevice, rescue_device
from tests.functional.api.conftest import Cloud


def rescue(cloud: Cloud, body: object) -> tuple[int, object, object]:
    uuid = cloud.make_server("vm")["id"]
    cloud.conductor.edit(uuid, vm_state="active", task_state=None, host="h1", node="h1")
    status, answer = cloud.ask("POST", f"/v2.1/servers/{uuid}/action", {"rescue": body})
    sent = cloud.conductor.actions[-1][2].get("rescue_image") if cloud.conductor.actions else None
    return status, answer, sent


def test_the_image_of_the_cloud_rescues_unless_the_request_names_one(stocked: Cloud) -> None:
    assert rescue(stocked, None)[::2] == (200, None)
    common, own = (stocked.make_image(name)["id"] for name in ("rescuer", "own"))
    stocked.conf.set_override("rescue_image_id", common, group="libvirt")
    for body, image in ((None, common), ({"rescue_image_ref": own}, own)):
        status, answer, sent = rescue(stocked, body)
        assert (status, {*answer}, sent["id"]) == (200, {"adminPass"}, image)  # type: ignore[misc,index]
    stocked.conf.set_override("rescue_image_id", "6d0c8a5e-0000-4000-8000-00000000000c", group="libvirt")
    status, answer, _ = rescue(stocked, None)
    assert (status, "Requested rescue image '6d0c8a5e" in str(answer)) == (400, True)


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"hw_rescue_device": "floppy"}, "Requested rescue device 'floppy' is not supported"),
        ({"hw_rescue_device": "cdrom", "hw_rescue_bus": "virtio"}, "Requested rescue bus 'virtio' is not supported"),
    ],
)
def test_a_device_that_no_guest_has_is_a_bad_request(stocked: Cloud, properties: dict[str, Any], why: str) -> None:
    image = stocked.make_image("rescuer", **properties)["id"]
    status, answer, _ = rescue(stocked, {"rescue_image_ref": image})
    assert (status, why in str(answer)) == (400, True)


def test_bug_rescue_disk_on_ide_of_a_machine_without_ide_failed_on_the_host(stocked: Cloud) -> None:
    rescuer = stocked.make_image("rescuer", hw_rescue_device="cdrom", hw_rescue_bus="ide")["id"]
    for machine, expected in (("q35", 400), ("pc", 200)):
        server = stocked.make_server(machine, imageRef=stocked.make_image(machine, hw_machine_type=machine)["id"])
        stocked.conductor.edit(server["id"], vm_state="active", task_state=None, host="h1", node="h1")
        body = {"rescue": {"rescue_image_ref": rescuer}}
        status, answer = stocked.ask("POST", f"/v2.1/servers/{server['id']}/action", body)
        assert (status, "hw_rescue_bus" in str(answer)) == (expected, expected == 400), answer


@pytest.mark.parametrize(
    ("properties", "device"),
    [
        ({}, None),
        ({"hw_rescue_bus": "usb"}, RescueDevice(bus="usb")),
        ({"hw_rescue_device": "disk"}, RescueDevice()),
        ({"hw_rescue_device": "cdrom", "hw_rescue_bus": "sata"}, RescueDevice(bus="sata", is_cd=True)),
    ],
)
def test_an_image_says_where_it_wants_to_be(properties: dict[str, str], device: RescueDevice | None) -> None:
    assert rescue_device(properties) == device
