"""Whether a guest could mistake the disk to rescue for its own."""

import pytest

from minova.errors import BadRequest
from minova.hardware.demands import require_agreement_of
from minova.hardware.guest.features import FlavorAndImage
from minova.objects.actions.rescue import RescueDevice, first_image_of, is_of_same_system, rescue_device
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.servers.instance import Instance


def image(image_id: str, base: str | None = None, first: str | None = None) -> Image:
    properties = {"base_image_ref": base, "first_image_ref": first}
    return Image(id=image_id, properties={key: value for key, value in properties.items() if value is not None})


@pytest.mark.parametrize(
    ("own", "rescuer", "is_same"),
    [
        (image("debian"), image("debian"), True),
        (image("debian"), image("rescuer"), False),
        # Snapshots of this server, and of others of the same image.
        (image("debian"), image("snapshot", "debian"), True),
        (image("snapshot", "debian"), image("debian"), True),
        (image("one", "debian"), image("two", "debian"), True),
        (image("one", ""), image("two", ""), False),
        # Snapshots of snapshots.
        (image("second", "first", "debian"), image("debian"), True),
        (image("debian"), image("third", "second", "debian"), True),
        (image("third", "second", "debian"), image("other", "one", "debian"), True),
        (image("third", "second", "debian"), image("first", "debian"), True),
        (image("third", "second", "debian"), image("other", "one", "alpine"), False),
        (None, image("debian"), True),
        (None, image("rescuer"), False),
    ],
)
def test_images_of_one_system(own: Image | None, rescuer: Image, is_same: bool) -> None:
    flavor = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=1, root_gb=1)
    reference = "debian" if own is None else own.id
    instance = Instance(uuid="u", display_name="vm", flavor=flavor, image=own, image_ref=reference)
    assert is_of_same_system(rescuer, instance) is is_same


def test_the_first_image_of_a_line_goes_with_its_snapshots() -> None:
    assert first_image_of(image("debian"), "debian") == "debian"
    assert first_image_of(image("first", "debian"), "first") == "debian"
    assert first_image_of(image("second", "first", "debian"), "second") == "debian"
    assert first_image_of(None, "lost") == "lost"


@pytest.mark.parametrize(
    ("key", "value"),
    [("hw_rescue_device", "fs"), ("hw_rescue_device", "lun"), ("hw_rescue_device", "floppy"), ("hw_rescue_bus", "fdc")],
)
def test_bug_an_image_was_refused_at_the_creation_for_keys_of_its_rescue(key: str, value: str) -> None:
    flavor = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=64, root_gb=1)
    require_agreement_of(FlavorAndImage(flavor, Image(id="i", properties={key: value})))
    with pytest.raises(BadRequest, match=rf"'{value}' is not supported \({key} of the image\)"):
        rescue_device({key: value})


@pytest.mark.parametrize(
    ("properties", "device"),
    [
        ({}, None),
        ({"hw_rescue_device": "", "hw_rescue_bus": ""}, None),
        ({"hw_rescue_device": "disk"}, RescueDevice()),
        ({"hw_rescue_device": "cdrom"}, RescueDevice(is_cd=True)),
        ({"hw_rescue_bus": "virtio"}, RescueDevice(bus="virtio")),
        ({"hw_rescue_device": "cdrom", "hw_rescue_bus": "sata"}, RescueDevice(bus="sata", is_cd=True)),
    ],
)
def test_where_a_rescue_disk_is_attached(properties: dict[str, str], device: RescueDevice | None) -> None:
    assert rescue_device(properties) == device


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"hw_rescue_device": "cdrom", "hw_rescue_bus": "virtio"}, "Requested rescue bus 'virtio' is not supported"),
        ({"hw_rescue_bus": "b" * 99}, f"Requested rescue bus '{'b' * 64}' is not supported"),
        ({"hw_rescue_device": "d" * 99}, f"Requested rescue device '{'d' * 64}' is not supported"),
    ],
)
def test_a_place_that_no_guest_has_is_refused(properties: dict[str, str], why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        rescue_device(properties)
