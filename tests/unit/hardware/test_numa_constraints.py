"""What flavors and images ask for, and what they may not. Each case has one option more than one that is right."""

from typing import Any

import pytest

from minova.errors import BadRequest
from minova.hardware.errors import nova_name
from minova.hardware.numa_constraints import numa_constraints
from minova.objects.catalogue.flavor import Flavor
from minova.objects.hosts.numa import InstanceNUMATopology

DEDICATED = {"hw:cpu_policy": "dedicated"}
MIXED = {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-1"}
SPLIT = {
    "hw:numa_nodes": "2",
    "hw:numa_cpus.0": "0,2,3",
    "hw:numa_mem.0": "3072",
    "hw:numa_cpus.1": "1",
    "hw:numa_mem.1": "1024",
}
IMAGE_SPLIT = {key.replace(":", "_", 1): value for key, value in SPLIT.items()}
ENCRYPTED = {"hw_mem_encryption": "true", "hw_firmware_type": "uefi"}


def ask(extra_specs: dict[str, str], image: dict[str, str] | None = None) -> InstanceNUMATopology | None:
    flavor = Flavor(flavorid="1", name="f", vcpus=4, memory_mb=4096, root_gb=1, extra_specs=extra_specs)
    return numa_constraints(flavor, image or {})


def topology_json(topology: InstanceNUMATopology | None) -> Any:
    """(shared CPUs, pinned CPUs, memory) of each cell."""
    if topology is None:
        return None
    return [(sorted(cell.cpuset), sorted(cell.pcpuset), cell.memory) for cell in topology.cells]


EVERY = [0, 1, 2, 3]
ONE: Any = [(EVERY, [], 4096)]
PINNED: Any = [([], EVERY, 4096)]
HALVES: Any = [([0, 1], [], 2048), ([2, 3], [], 2048)]
MIXTURE: Any = [([2, 3], [0, 1], 4096)]

RIGHT: list[tuple[str, dict[str, str], dict[str, str], Any]] = [
    ("nothing", {}, {}, None),
    ("shared CPUs alone", {"hw:cpu_policy": "shared"}, {}, None),
    ("one node", {"hw:numa_nodes": "1"}, {}, ONE),
    ("two nodes", {"hw:numa_nodes": "2"}, {}, HALVES),
    ("two nodes of the image", {}, {"hw_numa_nodes": "2"}, HALVES),
    ("nodes as told", SPLIT, {}, [([0, 2, 3], [], 3072), ([1], [], 1024)]),
    ("nodes as the image tells", {}, IMAGE_SPLIT, [([0, 2, 3], [], 3072), ([1], [], 1024)]),
    (
        "an image that fills in what the flavor leaves",
        {"hw:numa_nodes": "2"},
        dict(list(IMAGE_SPLIT.items())[1:]),
        [
            ([0, 2, 3], [], 3072),
            ([1], [], 1024),
        ],
    ),
    ("cells that were not asked for", dict(list(SPLIT.items())[1:]), {}, None),
    ("pinned", DEDICATED, {}, PINNED),
    ("pinned by the image", {}, {"hw_cpu_policy": "dedicated"}, PINNED),
    ("pinned by the flavor, whatever the image", DEDICATED, {"hw_cpu_policy": "shared"}, PINNED),
    ("pinned, on two nodes", DEDICATED | {"hw:numa_nodes": "2"}, {}, [([], [0, 1], 2048), ([], [2, 3], 2048)]),
    ("pinned by its resources", {"resources:PCPU": "4"}, {}, PINNED),
    ("shared by its resources", {"resources:VCPU": "4", "hw:numa_nodes": "1"}, {}, ONE),
    ("resources in two groups", {"resources1:PCPU": "3", "resources2:PCPU": "1"}, {}, PINNED),
    (
        "resources with a CPU for the emulator",
        {"resources:PCPU": "5", "hw:emulator_threads_policy": "isolate"},
        {},
        PINNED,
    ),
    ("mixed", MIXED, {}, MIXTURE),
    ("mixed by what is not pinned", MIXED | {"hw:cpu_dedicated_mask": "^2-3"}, {}, MIXTURE),
    ("mixed, on two nodes", MIXED | {"hw:numa_nodes": "2"}, {}, [([], [0, 1], 2048), ([2, 3], [], 2048)]),
    (
        "mixed by its realtime CPUs",
        {"hw:cpu_policy": "mixed", "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "0-1"},
        {},
        MIXTURE,
    ),
    ("mixed over a shared image", MIXED, {"hw_cpu_policy": "shared"}, MIXTURE),
    ("realtime", DEDICATED | {"hw:cpu_realtime": "true", "hw:cpu_realtime_mask": "^0"}, {}, PINNED),
    ("realtime by the image's mask", DEDICATED | {"hw:cpu_realtime": "true"}, {"hw_cpu_realtime_mask": "1-3"}, PINNED),
    (
        "realtime whole, the emulator elsewhere",
        DEDICATED | {"hw:cpu_realtime": "true", "hw:emulator_threads_policy": "isolate"},
        {},
        PINNED,
    ),
    ("no realtime", {"hw:cpu_realtime": "no", "hw:cpu_realtime_mask": "0-9"}, {}, None),
    ("persistent memory", {"hw:pmem": "2GB"}, {}, ONE),
    ("no persistent memory", {"hw:pmem": " , "}, {}, None),
    ("locked memory", {"hw:locked_memory": "true", "hw:mem_page_size": "small"}, {}, ONE),
    ("memory that is not locked", {"hw:locked_memory": "false"}, {}, None),
    ("locked alike", {"hw:locked_memory": "1", "hw:mem_page_size": "4"}, {"hw_locked_memory": "true"}, ONE),
    ("encrypted memory", {}, ENCRYPTED, None),
    ("encrypted memory on q35", {"hw:mem_encryption": "1"}, ENCRYPTED | {"hw_machine_type": "pc-q35-6.2"}, None),
    (
        "encrypted memory with stateless firmware",
        {"hw:mem_encryption_model": "amd-sev-snp"},
        ENCRYPTED | {"hw_firmware_stateless": "yes"},
        None,
    ),
    ("what is of no account here", {"hw:maxphysaddr_bits": "46"}, {"hw_disk_bus": "virtio"}, None),
]


@pytest.mark.parametrize(("specs", "image", "cells"), [case[1:] for case in RIGHT], ids=[case[0] for case in RIGHT])
def test_what_may_be_asked(specs: dict[str, str], image: dict[str, str], cells: Any) -> None:
    assert topology_json(ask(specs, image)) == cells


WRONG: list[tuple[str, dict[str, str], dict[str, str], str]] = [
    ("no number of nodes", {"hw:numa_nodes": "two"}, {}, "InvalidNUMANodesNumber"),
    ("no node", {"hw:numa_nodes": "0"}, {}, "InvalidNUMANodesNumber"),
    ("no node of the image", {}, {"hw_numa_nodes": "0"}, "InvalidNUMANodesNumber"),
    ("no number in the image", {}, {"hw_numa_nodes": "two"}, "ValueError"),
    ("nodes twice", {"hw:numa_nodes": "2"}, {"hw_numa_nodes": "2"}, "ImageNUMATopologyForbidden"),
    ("CPUs that cannot be divided", {"hw:numa_nodes": "3"}, {}, "ImageNUMATopologyAsymmetric"),
    ("CPUs twice", SPLIT, dict(list(IMAGE_SPLIT.items())[1:2]), "ImageNUMATopologyForbidden"),
    ("memory twice", SPLIT, dict(list(IMAGE_SPLIT.items())[2:3]), "ImageNUMATopologyForbidden"),
    ("memory without CPUs", {"hw:numa_nodes": "1", "hw:numa_mem.0": "4096"}, {}, "ImageNUMATopologyIncomplete"),
    ("one cell of two", {key: SPLIT[key] for key in list(SPLIT)[:3]}, {}, "ImageNUMATopologyIncomplete"),
    ("more cells than nodes", SPLIT | {"hw:numa_nodes": "1"}, {}, "ImageNUMATopologyIncomplete"),
    ("a CPU beyond the flavor's", SPLIT | {"hw:numa_cpus.1": "1,4"}, {}, "ImageNUMATopologyCPUOutOfRange"),
    ("a CPU in two cells", SPLIT | {"hw:numa_cpus.1": "0-1"}, {}, "ImageNUMATopologyCPUDuplicates"),
    ("a CPU in none", SPLIT | {"hw:numa_cpus.0": "0,2"}, {}, "ImageNUMATopologyCPUsUnassigned"),
    ("memory that does not add up", SPLIT | {"hw:numa_mem.1": "1025"}, {}, "ImageNUMATopologyMemoryOutOfRange"),
    (
        "memory below nothing",
        SPLIT | {"hw:numa_mem.0": "5120", "hw:numa_mem.1": "-1024"},
        {},
        "ImageNUMATopologyMemoryOutOf",
    ),
    ("CPUs that cannot be read", SPLIT | {"hw:numa_cpus.1": "1-x"}, {}, "Invalid"),
    ("CPUs of the image that cannot be read", {}, IMAGE_SPLIT | {"hw_numa_cpus.1": "1-x"}, "Invalid"),
    ("memory that is no number", SPLIT | {"hw:numa_mem.1": "lots"}, {}, "ValueError"),
    ("an unknown policy", {"hw:cpu_policy": "free"}, {}, "InvalidCPUAllocationPolicy"),
    ("an unknown policy of the image", {}, {"hw_cpu_policy": "free"}, "ValueError"),
    (
        "an image more pinned than a shared flavor",
        {"hw:cpu_policy": "shared"},
        {"hw_cpu_policy": "dedicated"},
        "ImageCPUPinningForbidden",
    ),
    ("an image more pinned than a mixed flavor", MIXED, {"hw_cpu_policy": "dedicated"}, "ImageCPUPinningForbidden"),
    ("an unknown thread policy", DEDICATED | {"hw:cpu_thread_policy": "avoid"}, {}, "InvalidCPUThreadAllocationPolicy"),
    ("an unknown thread policy of the image", DEDICATED, {"hw_cpu_thread_policy": "avoid"}, "ValueError"),
    (
        "another thread policy of the image",
        DEDICATED | {"hw:cpu_thread_policy": "isolate"},
        {"hw_cpu_thread_policy": "require"},
        "ImageCPUThreadPolicyForbidden",
    ),
    ("a thread policy of shared CPUs", {"hw:cpu_thread_policy": "prefer"}, {}, "CPUThreadPolicyConfigurationInvalid"),
    ("an unknown emulator policy", DEDICATED | {"hw:emulator_threads_policy": "x"}, {}, "InvalidEmulatorThreadsPolicy"),
    (
        "isolated emulator threads of shared CPUs",
        {"hw:emulator_threads_policy": "isolate"},
        {},
        "BadRequirementEmulatorThreadsPolicy",
    ),
    (
        "realtime of shared CPUs",
        {"hw:cpu_realtime": "1", "hw:cpu_realtime_mask": "^0"},
        {},
        "RealtimeConfigurationInvalid",
    ),
    ("realtime whole", DEDICATED | {"hw:cpu_realtime": "1"}, {}, "RealtimeMaskNotFoundOrInvalid"),
    (
        "a realtime mask of none",
        DEDICATED | {"hw:cpu_realtime": "1", "hw:cpu_realtime_mask": "^0-3"},
        {},
        "RealtimeMaskNotFoundOrInvalid",
    ),
    (
        "a realtime mask too wide",
        DEDICATED | {"hw:cpu_realtime": "1", "hw:cpu_realtime_mask": "2-4"},
        {},
        "RealtimeMaskNotFoundOrInvalid",
    ),
    (
        "a realtime mask that cannot be read",
        DEDICATED | {"hw:cpu_realtime": "1", "hw:cpu_realtime_mask": "x"},
        {},
        "Invalid",
    ),
    ("a dedicated mask of pinned CPUs", DEDICATED | {"hw:cpu_dedicated_mask": "0"}, {}, "RequiredMixedInstancePolicy"),
    ("a dedicated mask of shared CPUs", {"hw:cpu_dedicated_mask": "0"}, {}, "RequiredMixedInstancePolicy"),
    ("a dedicated mask of all", MIXED | {"hw:cpu_dedicated_mask": "0-3"}, {}, "InvalidMixedInstanceDedicatedMask"),
    ("a dedicated mask of none", MIXED | {"hw:cpu_dedicated_mask": "^0-3"}, {}, "InvalidMixedInstanceDedicatedMask"),
    ("a dedicated mask too wide", MIXED | {"hw:cpu_dedicated_mask": "3-4"}, {}, "InvalidMixedInstanceDedicatedMask"),
    ("mixed without a mask", {"hw:cpu_policy": "mixed"}, {}, "RequiredMixedOrRealtimeCPUMask"),
    (
        "mixed with both masks",
        MIXED | {"hw:cpu_realtime": "1", "hw:cpu_realtime_mask": "0"},
        {},
        "RequiredMixedOrRealtimeCPUMask",
    ),
    ("a policy twice", DEDICATED | {"resources:PCPU": "4"}, {}, "InvalidRequest"),
    ("a policy of the image twice", {"resources:VCPU": "4"}, {"hw_cpu_policy": "shared"}, "InvalidRequest"),
    ("both kinds of CPU", {"resources:PCPU": "2", "resources:VCPU": "2"}, {}, "InvalidRequest"),
    ("too few PCPUs", {"resources:PCPU": "3"}, {}, "InvalidRequest"),
    (
        "no PCPU for the emulator",
        {"resources:PCPU": "4", "hw:emulator_threads_policy": "isolate"},
        {},
        "InvalidRequest",
    ),
    (
        "threads twice",
        DEDICATED | {"hw:cpu_thread_policy": "isolate", "trait:HW_CPU_HYPERTHREADING": "forbidden"},
        {},
        "InvalidRequest",
    ),
    ("a page size that is none", {"hw:mem_page_size": "huge"}, {}, "MemoryPageSizeInvalid"),
    ("a page size below a KiB", {"hw:mem_page_size": "512B"}, {}, "MemoryPageSizeInvalid"),
    ("a page size of the image alone", {}, {"hw_mem_page_size": "2048"}, "MemoryPageSizeForbidden"),
    (
        "a page size of the image over a number",
        {"hw:mem_page_size": "2048"},
        {"hw_mem_page_size": "2048"},
        "MemoryPageSizeForbidden",
    ),
    (
        "a page size of the image that is none",
        {"hw:mem_page_size": "any"},
        {"hw_mem_page_size": "huge"},
        "MemoryPageSizeInvalid",
    ),
    ("locked memory without pages", {"hw:locked_memory": "true"}, {}, "LockMemoryForbidden"),
    ("locked memory of the image without pages", {}, {"hw_locked_memory": "true"}, "LockMemoryForbidden"),
    (
        "locked and not",
        {"hw:locked_memory": "true", "hw:mem_page_size": "4"},
        {"hw_locked_memory": "no"},
        "FlavorImageLockedMemoryConflict",
    ),
    ("encrypted and not", {"hw:mem_encryption": "false"}, ENCRYPTED, "FlavorImageConflict"),
    ("encrypted without UEFI", {"hw:mem_encryption": "true"}, {}, "FlavorImageConflict"),
    (
        "encrypted two ways",
        {"hw:mem_encryption_model": "amd-sev-es"},
        ENCRYPTED | {"hw_mem_encryption_model": "amd-sev"},
        "FlavorImageConflict",
    ),
    ("encrypted an unknown way", {"hw:mem_encryption_model": "rot13"}, ENCRYPTED, "Invalid"),
    ("encrypted on another machine", {}, ENCRYPTED | {"hw_machine_type": "pc"}, "InvalidMachineType"),
    (
        "encrypted without stateless firmware",
        {"hw:mem_encryption_model": "intel-tdx"},
        ENCRYPTED,
        "StatelessFirmwareRequired",
    ),
]


@pytest.mark.parametrize(("specs", "image", "kind"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_what_may_not_be_asked(specs: dict[str, str], image: dict[str, str], kind: str) -> None:
    with pytest.raises(BadRequest) as caught:
        ask(specs, image)
    assert nova_name(caught.value).startswith(kind)
    assert any(word in str(caught.value) for word in ("hw", "resources", "trait"))


# (flavor, image, the policy)
THREADS: list[tuple[dict[str, str], dict[str, str], str | None]] = [
    ({}, {}, None),
    ({"hw:cpu_thread_policy": "prefer"}, {}, "prefer"),
    ({"hw:cpu_thread_policy": "prefer"}, {"hw_cpu_thread_policy": "isolate"}, "prefer"),
    ({}, {"hw_cpu_thread_policy": "isolate"}, "isolate"),
    ({"hw:cpu_thread_policy": "require"}, {"hw_cpu_thread_policy": "require"}, "require"),
    ({"trait:HW_CPU_HYPERTHREADING": "required"}, {}, "require"),
    ({"trait:HW_CPU_HYPERTHREADING": "forbidden"}, {}, "isolate"),
    ({"trait1:HW_CPU_HYPERTHREADING": "forbidden"}, {}, "isolate"),
    ({"trait:HW_CPU_HYPERTHREADING": "required", "trait1:HW_CPU_HYPERTHREADING": "forbidden"}, {}, "require"),
    ({"trait:HW_CPU_HYPERTHREADING": ""}, {}, None),
    ({}, {"trait:HW_CPU_HYPERTHREADING": "required"}, "require"),
    ({}, {"trait:HW_CPU_HYPERTHREADING": "forbidden"}, None),
]


@pytest.mark.parametrize(("specs", "image", "policy"), THREADS)
def test_thread_policy(specs: dict[str, str], image: dict[str, str], policy: str | None) -> None:
    topology = ask(DEDICATED | specs, image)
    assert topology is not None
    assert [cell.cpu_thread_policy for cell in topology.cells] == [policy]


# (flavor, image, KiB or a word's number)
PAGES: list[tuple[str, str | None, int]] = [
    ("small", None, -1),
    ("large", None, -2),
    ("any", None, -3),
    ("2048", None, 2048),
    ("2MB", None, 2048),
    ("1GB", None, 1048576),
    ("1.5MiB", None, 1536),
    ("16Kib", None, 2),
    ("1", None, 1),
    ("any", "1GB", 1048576),
    ("large", "small", -1),
]


@pytest.mark.parametrize(("of_flavor", "of_image", "size"), PAGES)
def test_page_size(of_flavor: str, of_image: str | None, size: int) -> None:
    topology = ask({"hw:mem_page_size": of_flavor}, {} if of_image is None else {"hw_mem_page_size": of_image})
    assert topology is not None
    assert [cell.pagesize for cell in topology.cells] == [size]


def test_pages_of_no_size_are_as_if_none_were_asked_for() -> None:
    assert ask({"hw:mem_page_size": "0"}) is None


def test_the_emulator_threads_policy_is_the_whole_guests() -> None:
    topology = ask(DEDICATED | {"hw:emulator_threads_policy": "isolate"})
    assert topology is not None
    assert topology.emulator_threads_policy == "isolate"


def test_every_option_of_a_wrong_request_is_named_with_its_value() -> None:
    with pytest.raises(BadRequest, match="hw_cpu_policy=dedicated of the image: the flavor has hw:cpu_policy=shared"):
        ask({"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "dedicated"})
    with pytest.raises(BadRequest, match="hw:mem_page_size=huge"):
        ask({"hw:mem_page_size": "huge"})
