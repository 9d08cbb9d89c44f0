"""The law of the keys of flavors and images: each that minova knows is effective, required of the host, or refused by its name."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from minova import errors
from minova.hardware.cpu_policy import realtime_cpus
from minova.hardware.demands import host_needs, require_agreement_of
from minova.hardware.guest.features import FlavorAndImage
from minova.hardware.guest.keys import FLAVOR_KEYS, IMAGE_KEYS, Fate, KeyEntry, require_served
from minova.hardware.guest.partner_keys import ONLY_WITH
from minova.objects.actions.rescue import rescue_device
from minova.objects.catalogue import disk_config, flavor_extra_specs
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import BootFile, Image
from minova.objects.catalogue.image_properties import FIELDS, OLDER_NAMES, typed
from minova.objects.catalogue.kernel_boot import require_kernel
from minova.objects.hosts.numa import CPUs
from minova.objects.network.vif import Vif
from minova.objects.requests.required_traits import required_of_image, traits_of
from minova.objects.requests.resource_request import resource_alternatives
from minova.objects.servers.instance import Instance
from minova.scheduler.filters.aggregate_extra_specs import AggregateInstanceExtraSpecsFilter
from minova.scheduler.filters.compute_capabilities import needs as capability_needs
from minova.scheduler.filters.image_properties import ImagePropertiesFilter
from minova.scheduler.hosts.record import HypervisorCapabilities
from minova.virt.libvirt.guest_agent import admin_user, requires_quiesce
from minova.virt.libvirt.inventory.memory_encryption import MemoryEncryption
from minova.virt.libvirt.storage import boot_files
from minova.virt.libvirt.xml.disk_xml import Disk
from minova.virt.libvirt.xml.guest_xml import guest_xml
from minova.virt.libvirt.xml.host_settings import HostSettings
from minova.virt.libvirt.xml.numa_xml import HostCells
from tests.unit.scheduler.requests import options, request

MACHINES = {"x86_64": frozenset({"pc", "q35"}), "i686": frozenset({"pc"})}
SETTINGS = HostSettings(
    host="hv1",
    arch="x86_64",
    virt_type="qemu",
    machines=MACHINES,
    uefi=True,
    secure_boot=True,
    stateless_loader="/ovmf.fd",
    encryption=MemoryEncryption(cbitpos=47, reduced_bits=1),
    tpms=frozenset({"1.2", "2.0", "tpm-tis", "tpm-crb"}),
    vnc_listen="127.0.0.1",
    pointer_model="ps2mouse",
    bridges={"physnet": "br0"},
    cells=HostCells(cpus={0: frozenset(range(8))}),
)
VIFS = (Vif(port_id="p1", mac_address="fa:16:3e:00:00:01", network_id="n1"),)
ALIASES = ['{"name": "gpu", "vendor_id": "10de", "product_id": "1eb8", "device_type": "type-PCI"}']
FILTER_HOST = HypervisorCapabilities(
    hypervisor_type="QEMU",
    hypervisor_version=7_002_000,
    supported_instances=(("x86_64", "qemu", "hvm"),),
    cpu_info='{"arch": "x86_64", "machine_types": {"x86_64": ["pc", "q35"]}, "maxphysaddr": {"bits": 40}}',
)
Pairs = Mapping[str, str]
# {key: the pairs that are added, and those that are there before}. The values are the key's own, so that one without effect is found.
FLAVORS: dict[str, tuple[Pairs, Pairs]] = {
    "hw:cpu_sockets": ({"hw:cpu_sockets": "2"}, {}),
    "hw:cpu_cores": ({"hw:cpu_cores": "2"}, {}),
    "hw:cpu_threads": ({"hw:cpu_threads": "2"}, {}),
    "hw:cpu_max_sockets": ({"hw:cpu_max_sockets": "2"}, {}),
    "hw:cpu_max_cores": ({"hw:cpu_max_cores": "1"}, {"hw:cpu_cores": "2"}),
    "hw:cpu_max_threads": ({"hw:cpu_max_threads": "1"}, {"hw:cpu_threads": "2"}),
    "hw:cpu_policy": ({"hw:cpu_policy": "dedicated"}, {}),
    "hw:cpu_dedicated_mask": (
        {"hw:cpu_dedicated_mask": "0-2"},
        {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-1"},
    ),
    "hw:cpu_thread_policy": ({"hw:cpu_thread_policy": "isolate"}, {"hw:cpu_policy": "dedicated"}),
    "hw:cpu_realtime": (
        {"hw:cpu_realtime": "true", "hw:cpu_realtime_mask": "^0"},
        {"hw:cpu_policy": "dedicated"},
    ),
    "hw:cpu_realtime_mask": (
        {"hw:cpu_realtime_mask": "^0-1"},
        {"hw:cpu_policy": "dedicated", "hw:cpu_realtime": "true", "hw:cpu_realtime_mask": "^0"},
    ),
    "hw:emulator_threads_policy": ({"hw:emulator_threads_policy": "isolate"}, {"hw:cpu_policy": "dedicated"}),
    "hw:numa_nodes": ({"hw:numa_nodes": "2"}, {}),
    "hw:numa_cpus.N": (
        {"hw:numa_cpus.0": "0-2", "hw:numa_cpus.1": "3"},
        {
            "hw:numa_nodes": "2",
            "hw:numa_cpus.0": "0-1",
            "hw:numa_cpus.1": "2-3",
            "hw:numa_mem.0": "512",
            "hw:numa_mem.1": "512",
        },
    ),
    "hw:numa_mem.N": (
        {"hw:numa_mem.0": "256", "hw:numa_mem.1": "768"},
        {
            "hw:numa_nodes": "2",
            "hw:numa_cpus.0": "0-1",
            "hw:numa_cpus.1": "2-3",
            "hw:numa_mem.0": "512",
            "hw:numa_mem.1": "512",
        },
    ),
    "hw:mem_page_size": ({"hw:mem_page_size": "large"}, {}),
    "hw:locked_memory": ({"hw:locked_memory": "true"}, {"hw:mem_page_size": "4"}),
    "hw:vif_multiqueue_enabled": ({"hw:vif_multiqueue_enabled": "true"}, {}),
    "hw:virtio_packed_ring": ({"hw:virtio_packed_ring": "true"}, {}),
    "hw:mem_encryption": ({"hw:mem_encryption": "true"}, {}),
    "hw:tpm_version": ({"hw:tpm_version": "2.0"}, {}),
    "hw:tpm_model": ({"hw:tpm_model": "tpm-crb"}, {"hw:tpm_version": "2.0"}),
    "hw:ephemeral_encryption": ({"hw:ephemeral_encryption": "true"}, {}),
    "hw:ephemeral_encryption_format": (
        {"hw:ephemeral_encryption_format": "luks"},
        {"hw:ephemeral_encryption": "true"},
    ),
    "hw:sound_model": ({"hw:sound_model": "ich9"}, {}),
    "hw:usb_model": ({"hw:usb_model": "qemu-xhci"}, {}),
    "hw:viommu_model": ({"hw:viommu_model": "intel"}, {}),
    "hw:maxphysaddr_mode": ({"hw:maxphysaddr_mode": "passthrough"}, {}),
    "hw:maxphysaddr_bits": (
        {"hw:maxphysaddr_bits": "42"},
        {"hw:maxphysaddr_mode": "emulate", "hw:maxphysaddr_bits": "40"},
    ),
    "os:secure_boot": ({"os:secure_boot": "required"}, {}),
    "hw:boot_menu": ({"hw:boot_menu": "true"}, {}),
    "hw:pmu": ({"hw:pmu": "false"}, {}),
    "hide_hypervisor_id": ({"hide_hypervisor_id": "true"}, {}),
    "hw:hide_hypervisor_id": ({"hw:hide_hypervisor_id": "true"}, {}),
    "hw:serial_port_count": ({"hw:serial_port_count": "2"}, {}),
    "hw:watchdog_action": ({"hw:watchdog_action": "reset"}, {}),
    "hw_rng:allowed": ({"hw_rng:allowed": "false"}, {}),
    "hw_rng:rate_bytes": ({"hw_rng:rate_bytes": "64"}, {}),
    "hw_rng:rate_period": ({"hw_rng:rate_period": "500"}, {"hw_rng:rate_bytes": "64"}),
    "hw_video:ram_max_mb": ({"hw_video:ram_max_mb": "8"}, {}),
    "pci_passthrough:alias": ({"pci_passthrough:alias": "gpu:1"}, {}),
    "hw:pci_numa_affinity_policy": ({"hw:pci_numa_affinity_policy": "required"}, {"pci_passthrough:alias": "gpu:1"}),
    "aggregate_instance_extra_specs:*": ({"aggregate_instance_extra_specs:ssd": "true"}, {}),
    "capabilities:*": ({"capabilities:cpu_info:arch": "x86_64"}, {}),
    "resources:*": ({"resources:CUSTOM_LICENSE": "1"}, {}),
    "trait:*": ({"trait:HW_CPU_X86_AVX2": "required"}, {}),
    **{f"quota:cpu_{name}": ({f"quota:cpu_{name}": "2000"}, {}) for name in ("shares", "period", "quota")},
    **{
        f"quota:vif_{way}_{what}": ({f"quota:vif_{way}_{what}": "200"}, {f"quota:vif_{way}_average": "100"})
        for way in ("inbound", "outbound")
        for what in ("average", "peak", "burst")
    },
    **{
        f"quota:disk_{kind}{most}": ({f"quota:disk_{kind}{most}": "200"}, {f"quota:disk_{kind}": "100"})
        for kind in (f"{what}_{unit}_sec" for what in ("read", "write", "total") for unit in ("bytes", "iops"))
        for most in ("", "_max")
    },
    "quota:disk_size_iops_sec": ({"quota:disk_size_iops_sec": "4096"}, {"quota:disk_read_iops_sec": "100"}),
}
# Of the image, for keys of the flavor that only permit or limit.
BESIDE: dict[str, Pairs] = {
    "hw_rng:allowed": {"hw_rng_model": "virtio"},
    "hw_rng:rate_bytes": {"hw_rng_model": "virtio"},
    "hw_rng:rate_period": {"hw_rng_model": "virtio"},
    "hw_video:ram_max_mb": {"hw_video_ram": "4"},
    "os:secure_boot": {"hw_firmware_type": "uefi"},
    "hw:mem_encryption": {"hw_firmware_type": "uefi"},
}
IMAGES: dict[str, tuple[Pairs, Pairs]] = {
    "hw_cpu_sockets": ({"hw_cpu_sockets": "2"}, {}),
    "hw_cpu_cores": ({"hw_cpu_cores": "2"}, {}),
    "hw_cpu_threads": ({"hw_cpu_threads": "2"}, {}),
    "hw_cpu_max_sockets": ({"hw_cpu_max_sockets": "2"}, {}),
    "hw_cpu_max_cores": ({"hw_cpu_max_cores": "1"}, {"hw_cpu_max_sockets": "2"}),
    "hw_cpu_max_threads": ({"hw_cpu_max_threads": "1"}, {}),
    "hw_cpu_policy": ({"hw_cpu_policy": "dedicated"}, {}),
    "hw_cpu_thread_policy": ({"hw_cpu_thread_policy": "isolate"}, {"hw_cpu_policy": "dedicated"}),
    "hw_numa_nodes": ({"hw_numa_nodes": "2"}, {}),
    "hw_numa_cpus": (
        {"hw_numa_cpus.0": "0-2", "hw_numa_cpus.1": "3"},
        {
            "hw_numa_nodes": "2",
            "hw_numa_cpus.0": "0-1",
            "hw_numa_cpus.1": "2-3",
            "hw_numa_mem.0": "512",
            "hw_numa_mem.1": "512",
        },
    ),
    "hw_numa_mem": (
        {"hw_numa_mem.0": "256", "hw_numa_mem.1": "768"},
        {
            "hw_numa_nodes": "2",
            "hw_numa_cpus.0": "0-1",
            "hw_numa_cpus.1": "2-3",
            "hw_numa_mem.0": "512",
            "hw_numa_mem.1": "512",
        },
    ),
    "hw_vif_multiqueue_enabled": ({"hw_vif_multiqueue_enabled": "true"}, {}),
    "hw_disk_bus": ({"hw_disk_bus": "scsi"}, {}),
    "hw_cdrom_bus": ({"hw_cdrom_bus": "scsi"}, {}),
    "hw_vif_model": ({"hw_vif_model": "e1000"}, {}),
    "hw_video_model": ({"hw_video_model": "cirrus"}, {}),
    "hw_virtio_packed_ring": ({"hw_virtio_packed_ring": "true"}, {}),
    "hw_tpm_version": ({"hw_tpm_version": "2.0"}, {}),
    "hw_tpm_model": ({"hw_tpm_model": "tpm-crb"}, {"hw_tpm_version": "2.0"}),
    "hw_ephemeral_encryption": ({"hw_ephemeral_encryption": "true"}, {}),
    "hw_ephemeral_encryption_format": (
        {"hw_ephemeral_encryption_format": "luks"},
        {"hw_ephemeral_encryption": "true"},
    ),
    "hw_sound_model": ({"hw_sound_model": "usb"}, {}),
    "hw_usb_model": ({"hw_usb_model": "none"}, {}),
    "hw_viommu_model": ({"hw_viommu_model": "auto"}, {"hw_machine_type": "q35"}),
    "hw_maxphysaddr_mode": ({"hw_maxphysaddr_mode": "passthrough"}, {}),
    "hw_maxphysaddr_bits": ({"hw_maxphysaddr_bits": "42"}, {"hw_architecture": "x86_64"}),
    "hw_firmware_type": ({"hw_firmware_type": "uefi"}, {}),
    "os_secure_boot": ({"os_secure_boot": "required"}, {"hw_firmware_type": "uefi"}),
    "hw_firmware_stateless": ({"hw_firmware_stateless": "true"}, {"hw_firmware_type": "uefi"}),
    "traits_required": ({"trait:HW_CPU_X86_AVX2": "required"}, {}),
    "hw_machine_type": ({"hw_machine_type": "q35"}, {}),
    "hw_architecture": ({"hw_architecture": "aarch64"}, {}),
    "img_hv_type": ({"img_hv_type": "kvm"}, {}),
    "hw_vm_mode": ({"hw_vm_mode": "xen"}, {}),
    "img_hv_requested_version": ({"img_hv_requested_version": ">=8"}, {"img_hv_type": "qemu"}),
    "hw_scsi_model": ({"hw_scsi_model": "virtio-scsi"}, {"hw_disk_bus": "scsi"}),
    "hw_boot_menu": ({"hw_boot_menu": "true"}, {}),
    "kernel_id": ({"kernel_id": "k"}, {}),
    "ramdisk_id": ({"ramdisk_id": "r"}, {"kernel_id": "k"}),
    "os_command_line": ({"os_command_line": "root=/dev/vda1 quiet"}, {"kernel_id": "k"}),
    "hw_pmu": ({"hw_pmu": "true"}, {}),
    "img_hide_hypervisor_id": ({"img_hide_hypervisor_id": "true"}, {}),
    "hw_serial_port_count": ({"hw_serial_port_count": "3"}, {}),
    "hw_watchdog_action": ({"hw_watchdog_action": "pause"}, {}),
    "hw_rng_model": ({"hw_rng_model": "virtio"}, {}),
    "hw_time_hpet": ({"hw_time_hpet": "true"}, {}),
    "hw_pointer_model": ({"hw_pointer_model": "usbtablet"}, {}),
    "hw_input_bus": ({"hw_input_bus": "virtio"}, {}),
    "hw_qemu_guest_agent": ({"hw_qemu_guest_agent": "true"}, {}),
    "os_require_quiesce": ({"os_require_quiesce": "true"}, {}),
    "hw_rescue_device": ({"hw_rescue_device": "disk"}, {}),
    "hw_rescue_bus": ({"hw_rescue_bus": "usb"}, {"hw_rescue_device": "disk"}),
    "os_admin_user": ({"os_admin_user": "debian"}, {}),
    "os_type": ({"os_type": "windows"}, {}),
    "hw_auto_disk_config": ({"hw_auto_disk_config": "true"}, {}),
    "hw_cpu_realtime_mask": ({"hw_cpu_realtime_mask": "^0-1"}, {}),
    "hw_mem_page_size": ({"hw_mem_page_size": "2048"}, {}),
    "hw_locked_memory": ({"hw_locked_memory": "true"}, {}),
    "hw_video_ram": ({"hw_video_ram": "4"}, {}),
    "hw_pci_numa_affinity_policy": ({"hw_pci_numa_affinity_policy": "required"}, {}),
}
# Of the flavor, for keys of the image that the flavor must permit.
UNDER: dict[str, Pairs] = {
    "hw_cpu_max_threads": {"hw:cpu_threads": "2"},
    "hw_cpu_realtime_mask": {
        "hw:cpu_policy": "dedicated",
        "hw:cpu_realtime": "true",
        "hw:emulator_threads_policy": "share",
    },
    "hw_mem_page_size": {"hw:mem_page_size": "any"},
    "hw_locked_memory": {"hw:mem_page_size": "4"},
    "hw_video_ram": {"hw_video:ram_max_mb": "8"},
    "hw_pci_numa_affinity_policy": {"pci_passthrough:alias": "gpu:1"},
}
# Read by the API when a server is created: tests/functional/api/test_guest_data.py.
OF_THE_API = {"img_config_drive"}
EFFECTIVE = {Fate.GIVEN, Fate.REQUIRED}


def outcome(specs: Pairs, properties: Pairs) -> tuple[Any, ...]:
    """All that follows from the pairs: the needs of the scheduler, the domain, what Placement and the filters are asked, what the agent
    in the guest is asked.
    """
    flavor = Flavor(flavorid="1", name="m1", vcpus=4, memory_mb=1024, root_gb=1, extra_specs=dict(specs))
    # As the API adds them.
    kernel, ramdisk = (
        BootFile(id=properties[key]) if key in properties else None for key in ("kernel_id", "ramdisk_id")
    )
    image = Image(id="i", properties=dict(properties), kernel=kernel, ramdisk=ramdisk)
    guest = FlavorAndImage(flavor, image)
    require_agreement_of(guest)
    needs = host_needs(guest, ALIASES)
    numa = needs.numa_topology
    is_pinned = numa is not None and any(cell.pcpuset for cell in numa.cells)
    realtime: CPUs = realtime_cpus(flavor, typed(properties))
    spec = request(extra_specs=dict(specs), properties=dict(properties))
    return (
        needs,
        _xml(flavor, image, None if is_pinned or (numa and len(numa.cells) > 1) else numa),
        realtime,
        resource_alternatives(flavor, numa),
        traits_of(specs),
        required_of_image(image),
        capability_needs(dict(specs)),
        AggregateInstanceExtraSpecsFilter(options()).verdict((), spec),
        ImagePropertiesFilter(options()).verdict(FILTER_HOST, spec),
        (admin_user(image), requires_quiesce(image), disk_config.default_of(properties), rescue_device(properties)),
    )


def _xml(flavor: Flavor, image: Image, numa: Any) -> str:
    instance = Instance(
        uuid="0b8a5c5e-58a3-4a52-9e56-3a9a4f0f2f11",
        display_name="web",
        flavor=flavor,
        image=image,
        numa_topology=numa,
        network_info=VIFS,
    )
    disks = (
        Disk(path="/d/disk", driver_format="qcow2"),
        Disk(path="/d/disk.config", driver_format="raw", is_cd=True),
    )
    settings = msgspec.structs.replace(SETTINGS, machines={**MACHINES, "aarch64": frozenset({"virt"})})
    files = boot_files.of(Path("/d"), image, rescue=False)
    return guest_xml(instance, settings, node="n", attempt=1, disks=disks, console_log=None, boot_files=files)


def having(keys: Mapping[str, KeyEntry], *fates: Fate) -> set[str]:
    return {key for key, entry in keys.items() if entry.fate in fates}


def test_the_table_has_every_key_of_flavors() -> None:
    known_keys = {*flavor_extra_specs.known_keys(), "resourcesN:*", "traitN:*"}
    assert FLAVOR_KEYS.keys() == known_keys


def test_the_table_has_every_property_of_images() -> None:
    # Glance itself has the two IDs.
    assert IMAGE_KEYS.keys() == {*FIELDS, "kernel_id", "ramdisk_id"}


def test_each_effective_key_has_an_example() -> None:
    assert FLAVORS.keys() == having(FLAVOR_KEYS, *EFFECTIVE)
    assert IMAGES.keys() | OF_THE_API == having(IMAGE_KEYS, *EFFECTIVE)


@pytest.mark.parametrize("key", FLAVORS)
def test_an_effective_key_of_flavors_changes_something(key: str) -> None:
    added, before = FLAVORS[key]
    beside = BESIDE.get(key, {})
    if key == "hw_video:ram_max_mb":  # a flavor without it allows no such image
        with pytest.raises(errors.BadRequest):
            outcome({}, beside)
        assert outcome(added, beside)
        return
    assert outcome({**before, **added}, beside) != outcome(before, beside)


@pytest.mark.parametrize("key", IMAGES)
def test_an_effective_property_of_images_changes_something(key: str) -> None:
    added, before = IMAGES[key]
    assert outcome(UNDER.get(key, {}), {**before, **added}) != outcome(UNDER.get(key, {}), before)


def alone(specs: Pairs, properties: Pairs) -> str:
    """Returns what becomes of them without other keys: "effect", "none", or the text of the refusal."""
    try:
        require_kernel(properties)
        return "none" if outcome(specs, properties) == outcome({}, {}) else "effect"
    except errors.BadRequest as error:
        return str(error)


@pytest.mark.parametrize("key", [*FLAVORS, *IMAGES])
def test_bug_keys_without_their_partner_were_accepted_without_effect(key: str) -> None:
    """A key alone has an effect, is refused by its name, or is a limit or hint that the page names with its partner."""
    became = alone(FLAVORS[key][0], {}) if key in FLAVORS else alone({}, IMAGES[key][0])
    if key in ONLY_WITH:
        assert became in {"none", "effect"}
        return
    # Some texts name the key of the flavor, or the older name of the two.
    name = re.split(r"[:_]", key.removesuffix(".N"), maxsplit=1)[1]
    assert became == "effect" or name in became


@pytest.mark.parametrize(
    ("specs", "properties", "named"),
    [
        ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3", "hw:numa_mem.0": "1024", "hw:numa_cpus.3": "1"}, {}, "hw:numa_cpus.3"),
        ({}, {"hw_numa_mem.0": "1024"}, "hw_numa_mem.0"),
        ({"hw:virtio_packed_ring": "true"}, {"hw_vif_model": "e1000"}, "hw:virtio_packed_ring"),
        ({}, {"hw_vif_model": "e1000", "hw_virtio_packed_ring": "true"}, "hw_vif_model=e1000"),
        ({"hw_rng:rate_period": "100"}, {"hw_rng_model": "virtio"}, "hw_rng:rate_period"),
    ],
)  # fmt: skip
def test_keys_beside_a_partner_that_cannot_use_them_are_refused(specs: Pairs, properties: Pairs, named: str) -> None:
    assert named in alone(specs, properties)


@pytest.mark.parametrize(
    "specs",
    [
        {"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3", "hw:numa_mem.0": "1024"},
        # A guest with pinned CPUs has one node.
        {"hw:cpu_policy": "dedicated", "hw:numa_cpus.0": "0-3", "hw:numa_mem.0": "1024"},
    ],
)
def test_divided_nodes_are_accepted(specs: Pairs) -> None:
    assert alone(specs, {}) == "effect"


def test_limits_and_hints_are_known_keys() -> None:
    assert ONLY_WITH.keys() <= FLAVORS.keys() | IMAGES.keys()


@pytest.mark.parametrize("key", sorted(having(FLAVOR_KEYS, Fate.REFUSED) - {"resourcesN:*", "traitN:*"}))
def test_a_refused_key_of_flavors_is_named(key: str) -> None:
    with pytest.raises(errors.BadRequest, match=f"Flavor extra spec {key}: '1' is not served: "):
        require_served({key: "1"}, {})


@pytest.mark.parametrize(("specs", "properties"), [({"hw:pmem": "x" * 300}, {}), ({}, {"hw_floppy_bus": "x" * 300})])
def test_a_refusal_shows_at_most_255_characters_of_a_value(specs: Pairs, properties: Pairs) -> None:
    with pytest.raises(errors.BadRequest, match=r"'x{255}' is not served"):
        require_served(specs, properties)


@pytest.mark.parametrize("key", ["resources1:VCPU", "trait_GPU:HW_GPU_API_DIRECTX_V10_0"])
def test_numbered_groups_are_refused_by_name(key: str) -> None:
    with pytest.raises(errors.BadRequest, match=key):
        outcome({key: "1"}, {})


@pytest.mark.parametrize("key", sorted(having(IMAGE_KEYS, Fate.REFUSED)))
def test_a_refused_property_of_images_is_named(key: str) -> None:
    older = [name for name, newer in OLDER_NAMES.items() if newer == key]
    for name in (key, *older):
        with pytest.raises(errors.BadRequest, match=f"Image property {name}: '1' is not served: "):
            require_served({}, {name: "1"})


@pytest.mark.parametrize("value", ["false", "False", "no", "", "[]"])
def test_a_key_that_asks_for_nothing_is_accepted(value: str) -> None:
    require_served({"hw:ephemeral_encryption": value}, {"hw_mem_encryption": value, "img_block_device_mapping": value})


@pytest.mark.parametrize("key", sorted(having(IMAGE_KEYS, Fate.NOTED)))
def test_a_noted_property_asks_nothing(key: str) -> None:
    value = "1"
    require_served({}, {key: value})
    assert outcome({}, {key: value}) == outcome({}, {})


def test_an_image_may_repeat_that_its_flavor_encrypts_memory() -> None:
    image = {"hw_mem_encryption": "true", "hw_mem_encryption_model": "amd-sev"}
    require_served({"hw:mem_encryption": "true", "hw:mem_encryption_model": "amd-sev"}, image)
    require_served({}, image, beside={"hw:mem_encryption": "yes"})
    with pytest.raises(errors.BadRequest, match="hw_mem_encryption"):
        require_served({"hw:mem_encryption": "no"}, image)
    with pytest.raises(errors.BadRequest, match="hw:mem_encryption_model: 'amd-sev-snp' is not served"):
        require_served({"hw:mem_encryption": "true", "hw:mem_encryption_model": "amd-sev-snp"}, image)


def test_keys_of_operators_are_not_refused() -> None:
    require_served({"ssd": "true", "custom:key": "1"}, {"my_property": "1"})
