"""Counting instances in and out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova.compute.accounting import usage
from minova.compute.accounting.usage import TrackedInstance, Usage, usage_of
from minova.objects.catalogue.flavor import Flavor, Overhead
from minova.objects.catalogue.image import Image
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import TaskState, VmState

EMPTY = ComputeNode(
    uuid="u",
    host="h",
    hypervisor_hostname="n",
    memory_mb=8192,
    memory_mb_used=512,
    free_ram_mb=7680,
    local_gb=50,
    free_disk_gb=50,
    stats=usage.empty_stats(0),
)

flavors = st.builds(
    Flavor,
    flavorid=st.just("1"),
    name=st.just("m1"),
    vcpus=st.integers(1, 64),
    memory_mb=st.integers(1, 100_000),
    root_gb=st.integers(0, 1000),
    ephemeral_gb=st.integers(0, 1000),
    swap=st.integers(0, 10_000),
)
instances = st.builds(
    Instance,
    uuid=st.uuids().map(str),
    display_name=st.just("vm"),
    flavor=flavors,
    project_id=st.sampled_from(["a", "b"]),
    vm_state=st.sampled_from(VmState),
    task_state=st.none() | st.sampled_from(TaskState),
    image=st.none() | st.just(Image(id="i", properties={"os_type": "linux", "hw_architecture": "x86_64"})),
)
held = st.builds(
    lambda one: TrackedInstance(instance=one, usage=usage_of(one.flavor, Overhead(memory_mb=4))), instances
)


def test_usage_is_the_flavor_with_swap_as_disk_and_the_drivers_overhead() -> None:
    flavor = Flavor(flavorid="1", name="m1", vcpus=2, memory_mb=1024, root_gb=10, ephemeral_gb=5, swap=1500)
    assert usage_of(flavor, Overhead(memory_mb=64, disk_gb=1, vcpus=1)) == Usage(memory_mb=1088, disk_gb=18, vcpus=3)


def test_an_instance_is_counted_by_state_task_project_os_type_and_architecture() -> None:
    instance = Instance(
        uuid="i",
        display_name="vm",
        flavor=Flavor(flavorid="1", name="m1", vcpus=2, memory_mb=1024, root_gb=10),
        project_id="p",
        task_state=TaskState.SPAWNING,
        image=Image(id="i", properties={"os_type": "linux", "hw_architecture": "x86_64"}),
    )
    node = usage.with_added(EMPTY, TrackedInstance(instance=instance, usage=usage_of(instance.flavor, Overhead())))
    assert (node.running_vms, node.current_workload, node.vcpus_used) == (1, 1, 2)
    assert (node.memory_mb_used, node.free_ram_mb) == (1536, 6656)
    assert (node.local_gb_used, node.free_disk_gb) == (10, 40)
    assert node.stats == {
        "failed_builds": "0",
        "num_instances": "1",
        "io_workload": "1",
        "num_vm_building": "1",
        "num_task_spawning": "1",
        "num_proj_p": "1",
        "num_os_type_linux": "1",
        "num_arch_x86_64": "1",
    }


@pytest.mark.parametrize(
    ("vm_state", "task_state", "expected"),
    [
        (VmState.BUILDING, None, "1"),
        (VmState.BUILDING, TaskState.SCHEDULING, "1"),
        (VmState.ACTIVE, None, "0"),
        (VmState.ACTIVE, TaskState.DELETING, "0"),
        (VmState.ACTIVE, TaskState.RESIZE_PREP, "1"),
        (VmState.STOPPED, TaskState.RESIZE_MIGRATING, "1"),
        (VmState.ACTIVE, TaskState.RESIZE_MIGRATED, "0"),
        (VmState.ACTIVE, TaskState.MIGRATING, "0"),
        (VmState.ERROR, TaskState.REBUILDING, "1"),
        (VmState.ERROR, TaskState.REBUILD_SPAWNING, "0"),
    ],
)
def test_builds_rebuilds_and_moves_are_what_io_workload_counts(
    vm_state: VmState, task_state: TaskState | None, expected: str
) -> None:
    flavor = Flavor(flavorid="1", name="m1", vcpus=2, memory_mb=1024, root_gb=10)
    instance = Instance(uuid="i", display_name="vm", flavor=flavor, vm_state=vm_state, task_state=task_state)
    node = usage.with_added(EMPTY, TrackedInstance(instance=instance, usage=usage_of(flavor, Overhead())))
    assert node.stats["io_workload"] == expected


def test_free_may_become_negative() -> None:
    assert usage.with_resources(EMPTY, Usage(memory_mb=10_000, disk_gb=0, vcpus=0)).free_ram_mb == -2320


@given(present=st.lists(held, max_size=5), one=held)
def test_an_instance_that_goes_leaves_the_node_as_it_was(present: list[TrackedInstance], one: TrackedInstance) -> None:
    node = EMPTY
    for other in present:
        node = usage.with_added(node, other)
    assert usage.with_removed(usage.with_added(node, one), one) == node


@given(st.lists(held, max_size=5), st.randoms(use_true_random=False))
def test_the_order_in_which_instances_come_does_not_matter(present: list[TrackedInstance], chance: object) -> None:
    shuffled = list(present)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    nodes = []
    for order in (present, shuffled):
        node = EMPTY
        for added in order:
            node = usage.with_added(node, added)
        nodes.append(node)
    assert nodes[0] == nodes[1]
