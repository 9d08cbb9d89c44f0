"""Guests that an earlier release built without what their flavor or image names keep the hardware that they have."""

import logging

import msgspec
import pytest

from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.servers.instance import Instance
from minova.virt.libvirt.driver.as_built import as_built, lacks_of
from minova.virt.libvirt.xml.guest_xml import guest_xml
from minova.virt.libvirt.xml.mark import DomainMark, mark_of
from tests.unit.hardware.guest import test_keys

SPECS = {"hw:mem_encryption": "true", "hw:viommu_model": "intel", "hw:pmu": "true"}
INSTANCE = Instance(
    uuid="0b8a5c5e-58a3-4a52-9e56-3a9a4f0f2f11",
    display_name="web",
    flavor=Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=64, root_gb=1, extra_specs=SPECS),
    image=Image(id="i", properties={"hw_sound_model": "pcspk", "os_distro": "debian"}),
    image_ref="i",
)
MARK = DomainMark(uuid=INSTANCE.uuid, host="h", node="n", attempt=1, display_name="web", flavor="m1", image="i")
PLAIN = "<domain><devices/></domain>"


def test_a_guest_keeps_plain_memory_and_lacks_devices(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        kept = as_built(INSTANCE, lacks_of(INSTANCE, PLAIN, MARK))
    assert kept.flavor.extra_specs == {"hw:pmu": "true"}
    assert kept.image is not None
    assert kept.image.properties == {"os_distro": "debian"}
    assert "was built without hw:mem_encryption, hw:viommu_model, hw_sound_model" in caplog.text


def test_a_guest_that_has_them_keeps_them() -> None:
    xml = "<domain><launchSecurity/><devices><iommu/><sound/></devices></domain>"
    assert as_built(INSTANCE, lacks_of(INSTANCE, xml, MARK)) is INSTANCE


@pytest.mark.parametrize("changed", [{"flavor": "m2"}, {"image": "j"}])
def test_another_flavor_or_image_gives_them(changed: dict[str, str]) -> None:
    assert lacks_of(INSTANCE, PLAIN, msgspec.structs.replace(MARK, **changed)) == ()


def test_bug_domain_of_this_release_without_its_element_stayed_plain() -> None:
    """Something else has removed the element: the next definition has it again, or the host refuses."""
    assert lacks_of(INSTANCE, PLAIN, msgspec.structs.replace(MARK, lacks=())) == ()


def test_what_an_earlier_release_built_is_noted_for_the_next_definition() -> None:
    lacks = lacks_of(INSTANCE, PLAIN, MARK)
    assert lacks == ("hw:mem_encryption", "hw:viommu_model", "hw_sound_model")
    assert lacks_of(INSTANCE, PLAIN, msgspec.structs.replace(MARK, lacks=lacks)) == lacks
    settings = msgspec.structs.replace(test_keys.SETTINGS, bridges={})
    xml = guest_xml(as_built(INSTANCE, lacks), settings, node="n", attempt=1, disks=(), console_log=None, lacks=lacks)
    mark = mark_of(xml)
    assert mark is not None
    assert mark.lacks == lacks
