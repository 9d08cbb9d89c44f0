"""What an audit makes of view and rows."""

from typing import Any

import msgspec
import pytest

from minova.compute.accounting.audit import AuditResult, NodeSettings, audit_node
from minova.compute.accounting.inventories import ConfiguredRatios, ReservedResources, ratios_for
from minova.compute.accounting.node_usage import without_instance
from minova.compute.tracker.resource_view import validated
from minova.objects.catalogue.flavor import Flavor, Overhead
from minova.objects.hosts.compute_node import AvailableResources, ComputeNode, DomainView, Inventory
from minova.objects.requests.request_spec import RequestSpec
from minova.objects.servers.build import AuditInputs, BuildMessage
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState, TaskState, VmState
from minova.objects.unexpected.guest_record import GuestRecord

FLAVOR = Flavor(flavorid="1", name="m1", vcpus=2, memory_mb=1024, root_gb=10)
SETTINGS = NodeSettings(
    host="h", host_ip="10.0.0.1", reserved=ReservedResources(memory_mb=512, disk_gb=1, vcpus=1), packing=False
)


def a_view(*domains: DomainView) -> AvailableResources:
    return AvailableResources(
        node="n",
        vcpus=8,
        memory_mb=8192,
        memory_mb_used=700,
        local_gb=100,
        local_gb_used=3,
        disk_available_least=80,
        hypervisor_type="QEMU",
        hypervisor_version=7002000,
        hypervisor_hostname="n",
        domains=domains,
    )


def a_domain(uuid: str, **changes: Any) -> DomainView:
    plain = DomainView(uuid=uuid, name=uuid, memory_mb=300, vcpus=1, power_state=PowerState.RUNNING)
    return msgspec.structs.replace(plain, **changes)


def an_instance(uuid: str, **changes: Any) -> Instance:
    plain = Instance(
        uuid=uuid,
        display_name=uuid,
        flavor=FLAVOR,
        host="h",
        node="n",
        vm_state=VmState.ACTIVE,
        power_state=PowerState.RUNNING,
    )
    return msgspec.structs.replace(plain, **changes)


def audit(view: AvailableResources, inputs: AuditInputs, **more: Any) -> AuditResult:
    return audit_node(view, inputs, SETTINGS, new_uuid="new", overhead=lambda flavor: Overhead(), **more)


def test_an_empty_node_uses_what_is_reserved() -> None:
    node = audit(a_view(), AuditInputs()).node_usage.node
    assert (node.uuid, node.id, node.host, node.host_ip) == ("new", 0, "h", "10.0.0.1")
    assert (node.memory_mb_used, node.local_gb_used, node.vcpus_used) == (512, 1, 1)
    assert (node.free_ram_mb, node.free_disk_gb, node.disk_available_least) == (7680, 99, 80)
    assert (node.running_vms, node.current_workload) == (0, 0)


def test_a_node_keeps_the_identity_of_its_row() -> None:
    row = ComputeNode(uuid="known", id=7, generation=3, host="h", hypervisor_hostname="n")
    node = audit(a_view(), AuditInputs(node=row)).node_usage.node
    assert (node.uuid, node.id, node.generation) == ("known", 7, 3)


COUNTED = [
    ("an active instance", {}, True),
    ("one that is being built", {"vm_state": VmState.BUILDING, "task_state": TaskState.SPAWNING}, True),
    ("one that is being deleted", {"task_state": TaskState.DELETING}, True),
    ("one in error", {"vm_state": VmState.ERROR}, True),
    ("a stopped one", {"vm_state": VmState.STOPPED}, True),
    ("a deleted one", {"vm_state": VmState.DELETED}, False),
    ("a shelved one that was offloaded", {"vm_state": VmState.SHELVED_OFFLOADED}, False),
    ("one of another host", {"host": "other"}, False),
    ("one of another node", {"node": "other"}, False),
]


@pytest.mark.parametrize(("changes", "counts"), [case[1:] for case in COUNTED], ids=[case[0] for case in COUNTED])
def test_which_instances_hold_resources(changes: dict[str, Any], counts: bool) -> None:
    finding = audit(a_view(), AuditInputs(instances=(an_instance("i", **changes),)))
    assert finding.node_usage.node.memory_mb_used == 512 + counts * 1024
    assert finding.node_usage.node.running_vms == counts
    assert bool(finding.node_usage.instances) == counts


def test_an_orphaned_domain_counts_with_its_memory_alone() -> None:
    finding = audit(a_view(a_domain("orphan", ours=False)), AuditInputs())
    assert finding.record.orphans == {"orphan": 300}
    assert (finding.node_usage.node.memory_mb_used, finding.node_usage.node.free_ram_mb) == (812, 7380)
    assert (
        finding.node_usage.node.vcpus_used,
        finding.node_usage.node.local_gb_used,
        finding.node_usage.node.running_vms,
    ) == (
        1,
        1,
        0,
    )


def guest_record(uuid: str, attempt: int = 1, **changes: Any) -> GuestRecord:
    return GuestRecord(instance=an_instance(uuid, **changes), attempt=attempt, node="n")


def used(finding: AuditResult) -> tuple[int, int, int]:
    node = finding.node_usage.node
    return node.memory_mb_used - 512, node.vcpus_used - 1, node.local_gb_used - 1


def test_a_guest_without_a_row_counts_with_all_that_its_host_knows_of_it() -> None:
    """Its memory, CPUs and disk are not given away."""
    view = a_view(a_domain("known", attempt=1), a_domain("unknown", attempt=1), a_domain("later", attempt=2))
    records = {"known": guest_record("known"), "later": guest_record("later", attempt=1)}
    finding = audit(view, AuditInputs(), records=records, left_disks={"disks": 7, "known": 7})
    domain = a_domain("known")
    assert used(finding) == (3 * domain.memory_mb, 3 * domain.vcpus, FLAVOR.disk_gb + 7)
    assert set(finding.node_usage.orphans) == {"known", "unknown", "later", "disks"}
    freed = without_instance(without_instance(finding.node_usage, "known"), "disks")
    assert (freed.node.local_gb_used, set(freed.orphans)) == (1, {"unknown", "later"})


def test_an_unexpected_domain_is_to_be_destroyed_and_counts_until_then() -> None:
    finding = audit(a_view(a_domain("late", attempt=2)), AuditInputs(unexpected_domains=("late",)))
    assert [(domain.uuid, domain.attempt) for domain in finding.unexpected_domains] == [("late", 2)]
    assert finding.node_usage.node.memory_mb_used == 812


def test_the_domain_of_a_build_is_no_orphan_before_it_is_claimed() -> None:
    instance = an_instance("i", host=None, node=None, vm_state=VmState.BUILDING)
    message = BuildMessage(instance=instance, attempt=1, node="n", request_spec=RequestSpec(flavor=FLAVOR))
    finding = audit(a_view(a_domain("i")), AuditInputs(attempts=(message,)))
    assert finding.node_usage.orphans == {}
    assert finding.node_usage.node.memory_mb_used == 512
    assert finding.attempts == (message,)


POWER = [
    ("agreeing", {}, [a_domain("i")], False),
    ("shut down from inside", {}, [a_domain("i", power_state=PowerState.SHUTDOWN)], True),
    (
        "active and off, as the row says",
        {"power_state": PowerState.SHUTDOWN},
        [a_domain("i", power_state=PowerState.SHUTDOWN)],
        True,
    ),
    (
        "stopped and off",
        {"vm_state": VmState.STOPPED, "power_state": PowerState.SHUTDOWN},
        [a_domain("i", power_state=PowerState.SHUTDOWN)],
        False,
    ),
    ("shelved and running, as the row says", {"vm_state": VmState.SHELVED}, [a_domain("i")], True),
    ("gone", {}, [], True),
    ("gone, as the row says", {"power_state": PowerState.NOSTATE}, [], False),
    ("in the middle of a build", {"vm_state": VmState.BUILDING, "task_state": TaskState.SPAWNING}, [], False),
]


@pytest.mark.parametrize(
    ("changes", "domains", "differs"), [case[1:] for case in POWER], ids=[case[0] for case in POWER]
)
def test_power_states_that_differ(changes: dict[str, Any], domains: list[DomainView], differs: bool) -> None:
    finding = audit(a_view(*domains), AuditInputs(instances=(an_instance("i", **changes),)))
    assert bool(finding.power_states) == differs


def test_inventories_have_totals_reserves_and_ratios() -> None:
    assert audit(a_view(), AuditInputs()).inventories == (
        Inventory(resource_class="VCPU", total=8, reserved=1, max_unit=8, allocation_ratio=4.0, keeps_ratio=True),
        Inventory(resource_class="MEMORY_MB", total=8192, reserved=512, max_unit=8192, keeps_ratio=True),
        Inventory(resource_class="DISK_GB", total=100, reserved=1, max_unit=100, keeps_ratio=True),
    )


def test_what_a_node_has_none_of_is_not_offered() -> None:
    diskless = msgspec.structs.replace(a_view(), local_gb=0)
    assert [inventory.resource_class for inventory in audit(diskless, AuditInputs()).inventories] == [
        "VCPU",
        "MEMORY_MB",
    ]


ROW = ComputeNode(
    uuid="u",
    host="h",
    hypervisor_hostname="n",
    cpu_allocation_ratio=16.0,
    ram_allocation_ratio=1.5,
    disk_allocation_ratio=2.0,
)
RATIOS = [
    ("a new node begins with the initial ones", ConfiguredRatios(), None, (4.0, 1.0, 1.0)),
    ("a known node keeps its own", ConfiguredRatios(), ROW, (16.0, 1.5, 2.0)),
    ("what the operator sets wins", ConfiguredRatios(cpu=2.0, ram=1.1, disk=3.0), ROW, (2.0, 1.1, 3.0)),
    ("zero means unset, as in Nova", ConfiguredRatios(cpu=0.0), ROW, (16.0, 1.5, 2.0)),
]


@pytest.mark.parametrize(("ratios", "row", "expected"), [case[1:] for case in RATIOS], ids=[case[0] for case in RATIOS])
def test_allocation_ratios(ratios: ConfiguredRatios, row: ComputeNode | None, expected: tuple[float, ...]) -> None:
    assert ratios_for(ratios, row) == expected


def test_a_view_with_a_field_that_is_no_number_names_it() -> None:
    wrong = msgspec.structs.replace(a_view(), memory_mb="much")
    with pytest.raises(ValueError, match=r"node n: Expected `int`, got `str` - at `\$.memory_mb`"):
        validated(wrong)


def test_a_view_without_a_required_field_names_it() -> None:
    with pytest.raises(TypeError, match="vcpus"):
        AvailableResources(node="n")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("memory_mb", "task_state", "is_conflict"),
    [(1024, None, False), (1025, None, True), (1025, TaskState.RESIZE_MIGRATING, False)],
)
def test_a_domain_larger_than_the_row_of_an_idle_instance_is_a_conflict(
    memory_mb: int, task_state: TaskState | None, is_conflict: bool
) -> None:
    finding = audit(
        a_view(a_domain("i", memory_mb=memory_mb)),
        AuditInputs(instances=(an_instance("i", task_state=task_state), an_instance("without domain"))),
    )
    text = "the domain of instance i has 1025 MB, its flavor 1024 MB"
    assert finding.conflicts == ((text,) if is_conflict else ())
