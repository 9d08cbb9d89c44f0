"""Whether a guest could mistake the disk to rescue for its own."""

import pytest

from minova.objects.actions.rescue import is_of_same_system
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.servers.instance import Instance


def image(image_id: str, base: str | None = None) -> Image:
    return Image(id=image_id, properties={} if base is None else {"base_image_ref": base})


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
        (None, image("debian"), True),
        (None, image("rescuer"), False),
    ],
)
def test_images_of_one_system(own: Image | None, rescuer: Image, is_same: bool) -> None:
    flavor = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=1, root_gb=1)
    reference = "debian" if own is None else own.id
    instance = Instance(uuid="u", display_name="vm", flavor=flavor, image=own, image_ref=reference)
    assert is_of_same_system(rescuer, instance) is is_same
