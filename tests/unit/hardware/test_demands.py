"""host_needs: what the API derives once from flavor and image, and refuses there."""

import msgspec
import pytest

from minova import errors
from minova.hardware.demands import host_needs
from tests.functional.conductor.conductor_harness import FLAVOR, IMAGE

ALIAS = '{"name": "gpu", "vendor_id": "10de", "product_id": "1eb8", "device_type": "type-PCI"}'


def test_needs_are_cells_devices_and_traits() -> None:
    specs = {"hw:numa_nodes": "2", "pci_passthrough:alias": "gpu:1"}
    flavor = msgspec.structs.replace(FLAVOR, vcpus=2, memory_mb=1024, extra_specs=specs)
    image = msgspec.structs.replace(IMAGE, properties={"hw_disk_bus": "scsi"})
    needs = host_needs(flavor, image, [ALIAS])
    assert needs.numa_topology is not None
    assert [cell.memory for cell in needs.numa_topology.cells] == [512, 512]
    assert [one.alias_name for one in needs.pci_requests] == ["gpu"]
    assert needs.required_traits == ("COMPUTE_STORAGE_BUS_SCSI",)


def test_a_plain_flavor_with_any_image_needs_nothing() -> None:
    needs = host_needs(FLAVOR, None, [])
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
        host_needs(msgspec.structs.replace(FLAVOR, extra_specs=specs), IMAGE, [])


def test_a_flavor_that_contradicts_the_image_is_refused() -> None:
    flavor = msgspec.structs.replace(FLAVOR, vcpus=2, extra_specs={"hw:vif_multiqueue_enabled": "true"})
    image = msgspec.structs.replace(IMAGE, properties={"hw_vif_multiqueue_enabled": "false"})
    with pytest.raises(errors.BadRequest, match="conflicting"):
        host_needs(flavor, image, [])
