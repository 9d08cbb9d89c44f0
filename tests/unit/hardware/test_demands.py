"""host_needs: what the API derives once from flavor and image, and refuses there."""

import msgspec
import pytest

from minova import errors
from minova.hardware.demands import host_needs, require_agreement_of, require_agreement_of_change
from minova.hardware.guest.features import FlavorAndImage
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from tests.functional.conductor.conductor_harness import FLAVOR, IMAGE

ALIAS = '{"name": "gpu", "vendor_id": "10de", "product_id": "1eb8", "device_type": "type-PCI"}'


def test_needs_are_cells_devices_and_traits() -> None:
    specs = {"hw:numa_nodes": "2", "pci_passthrough:alias": "gpu:1"}
    flavor = msgspec.structs.replace(FLAVOR, vcpus=2, memory_mb=1024, extra_specs=specs)
    image = msgspec.structs.replace(IMAGE, properties={"hw_disk_bus": "scsi"})
    needs = host_needs(FlavorAndImage(flavor, image), [ALIAS])
    assert needs.numa_topology is not None
    assert [cell.memory for cell in needs.numa_topology.cells] == [512, 512]
    assert [pci_request.alias_name for pci_request in needs.pci_requests] == ["gpu"]
    assert needs.required_traits == ("COMPUTE_STORAGE_BUS_SCSI",)


def test_a_plain_flavor_with_any_image_needs_nothing() -> None:
    needs = host_needs(FlavorAndImage(FLAVOR), [])
    assert (needs.numa_topology, needs.pci_requests, needs.required_traits) == (None, (), ())


@pytest.mark.parametrize(
    "specs",
    [
        {"hw:numa_nodes": "none"},
        {"pci_passthrough:alias": "absent:1"},
        {"quota:cpu_shares": "many"},
    ],
)
def test_what_no_host_can_have_is_refused(specs: dict[str, str]) -> None:
    with pytest.raises(errors.BadRequest):
        host_needs(FlavorAndImage(msgspec.structs.replace(FLAVOR, extra_specs=specs), IMAGE), [])


def test_a_flavor_that_contradicts_the_image_is_refused() -> None:
    flavor = msgspec.structs.replace(FLAVOR, vcpus=2, extra_specs={"hw:vif_multiqueue_enabled": "true"})
    image = msgspec.structs.replace(IMAGE, properties={"hw_vif_multiqueue_enabled": "false"})
    with pytest.raises(errors.BadRequest, match="conflicting"):
        host_needs(FlavorAndImage(flavor, image), [])


def of_specs(**specs: str) -> Flavor:
    extra_specs = {key.replace("__", ":"): value for key, value in specs.items()}
    return Flavor(flavorid="1", name="m1", vcpus=4, memory_mb=1024, root_gb=1, extra_specs=extra_specs)


@pytest.mark.parametrize(
    "properties",
    [
        {"hw_numa_cpus.0": "0-3"},
        {"hw_numa_mem.x": "512"},
        {"hw_mem_encryption": "true", "hw_firmware_type": "uefi"},
        {"hw_vif_model": "e1000", "hw_virtio_packed_ring": "true"},
        {"hw_rescue_device": "floppy", "hw_rescue_bus": "fdc"},
        {"hw_tpm_model": "tpm-crb"},
    ],
    ids=str,
)
def test_bug_a_resize_was_refused_for_keys_of_the_image_that_nobody_can_change(properties: dict[str, str]) -> None:
    image = Image(id="i", properties=properties)
    require_agreement_of_change(FlavorAndImage(of_specs(), image), FlavorAndImage(of_specs(hw__cpu_sockets="2"), image))


def test_a_resize_within_an_old_contradiction_is_accepted() -> None:
    image = Image(id="i", properties={"hw_pmu": "false"})
    with pytest.raises(errors.BadRequest, match="hw_pmu=false"):
        require_agreement_of(FlavorAndImage(of_specs(hw__pmu="true"), image))
    require_agreement_of_change(
        FlavorAndImage(of_specs(hw__pmu="true"), image),
        FlavorAndImage(of_specs(hw__pmu="true", hw__cpu_sockets="2"), image),
    )


@pytest.mark.parametrize(
    ("specs", "properties", "key"),
    [
        ({"hw__pmu": "true"}, {"hw_pmu": "false", "hw_numa_cpus.0": "0-3"}, "hw_pmu=false"),
        ({"hw_rng__rate_period": "5"}, {"hw_numa_cpus.0": "0-3"}, "hw_rng:rate_period"),
        ({"hw__numa_cpus.1": "0-3"}, {"hw_numa_cpus.0": "0-3"}, r"hw:numa_cpus\.1"),
        ({"hw__virtio_packed_ring": "true"}, {"hw_vif_model": "e1000"}, "hw_vif_model"),
        ({"hw__cpu_max_sockets": "1"}, {"hw_cpu_max_sockets": "2"}, "hw_cpu_max_sockets"),
    ],
    ids=str,
)
def test_a_resize_is_refused_for_what_the_new_flavor_brings(
    specs: dict[str, str], properties: dict[str, str], key: str
) -> None:
    with pytest.raises(errors.BadRequest, match=key):
        require_agreement_of_change(
            FlavorAndImage(of_specs(), Image(id="i", properties=properties)),
            FlavorAndImage(of_specs(**specs), Image(id="i", properties=properties)),
        )
