"""Guests against rows, as the hosts have reported them last; allocations and usages against servers."""

from collections.abc import Iterator

from sqlalchemy import select

from minova.db.models import ComputeNode, Instance, NodeAudit, Task, UnexpectedGuest
from minova.health.doctor.findings import Finding, Patient, Severity
from minova.objects.guests.guest_states import SHOULD_RUN
from minova.objects.servers.states import PowerState, VmState, power_state_of
from minova.objects.unexpected.removal_rules import WHY, DomainVerdict
from minova.placement.audit import gather
from minova.placement.audit.judge import FindingKind

AREA = "guests"
# A guest that sleeps is no fault: its user lets it sleep.
_STANDS = {
    PowerState.PAUSED: "stands still",
    PowerState.CRASHED: "has crashed",
    PowerState.SHUTDOWN: "is off",
}
_RUNS = "runs though its server is stopped"
_REASON_SHOWN = "minova server show {uuid}: its fault names the reason and the way out (docs/operators/guests.md)"
# By problem. Those that are not here have a fault.
_MENDS = {
    "is off": "minova server reboot --hard {uuid} starts it",
    _RUNS: "minova server start {uuid} keeps it; minova server reboot --hard {uuid}, then minova server stop {uuid}, end it",
}
# These findings of the audit of Placement are about guests, and are shown with their commands here.
_OF_GUESTS = frozenset(
    {FindingKind.GUEST_WITHOUT_ROW, FindingKind.NEWER_GUEST, FindingKind.MISPLACED_GUEST, FindingKind.WITHOUT_GUEST}
)


def wrong_power(vm_state: VmState, power_state: PowerState) -> str | None:
    """Returns what is wrong with the guest of an idle server; None: nothing."""
    if vm_state in SHOULD_RUN:
        return _STANDS.get(power_state)
    if vm_state is VmState.STOPPED and power_state is PowerState.RUNNING:
        return _RUNS
    return None


def check(patient: Patient) -> Iterator[Finding]:
    yield from _power(patient)
    yield from _unexpected(patient)
    yield from _audits(patient)
    yield from _hosts(patient)


def _power(patient: Patient) -> Iterator[Finding]:
    has_task = select(Task.id).where(Task.instance_uuid == Instance.uuid).exists()
    query = select(Instance.uuid, Instance.host, Instance.vm_state, Instance.power_state).where(
        Instance.deleted_at.is_(None), Instance.host.is_not(None), Instance.task_state.is_(None), ~has_task
    )
    for uuid, host, vm_state, number in patient.session.execute(query.order_by(Instance.id)):
        problem = wrong_power(VmState(vm_state), power_state_of(number)) if vm_state in set(VmState) else None
        if problem is not None:
            yield Finding(
                area=AREA,
                subject=f"the guest of server {uuid}",
                problem=problem,
                detail=f"on {host}",
                mend=_MENDS.get(problem, _REASON_SHOWN).format(uuid=uuid),
            )


def _unexpected(patient: Patient) -> Iterator[Finding]:
    query = select(UnexpectedGuest).where(UnexpectedGuest.remove_at.is_(None))
    for row in patient.session.scalars(query.order_by(UnexpectedGuest.host, UnexpectedGuest.uuid)):
        yield Finding(
            area=AREA,
            subject=f"the guest {row.uuid} on {row.host}",
            problem="is unexpected",
            detail=WHY[DomainVerdict(row.reason)],
            mend=f"shut it down on {row.host} (docs/operators/moves.md)"
            if row.reason == DomainVerdict.STRAY.value
            else f"minova-manage unexpected list, then adopt or remove {row.uuid}",
        )


def _audits(patient: Patient) -> Iterator[Finding]:
    query = select(ComputeNode.host, NodeAudit).join(NodeAudit, NodeAudit.node_id == ComputeNode.id)
    for host, audit in patient.session.execute(query.order_by(ComputeNode.id)):
        for conflict in audit.found.conflicts:
            yield Finding(
                area=AREA,
                subject=f"the host {host}",
                problem="contradicts its rows",
                detail=conflict,
                mend=f"minova hypervisor audit {host}",
            )
        for what, names in (
            ("guests that must not be there any more", audit.found.unexpected_domains),
            ("guests whose memory no row expects", tuple(audit.found.orphans)),
        ):
            if names:
                yield Finding(
                    area=AREA,
                    subject=f"the host {host}",
                    problem=f"has {what}",
                    detail=", ".join(names),
                    mend=f"minova hypervisor audit {host}; minova-manage unexpected list",
                    severity=Severity.WARNING,
                )


def _hosts(patient: Patient) -> Iterator[Finding]:
    same_node = (ComputeNode.host == Instance.host) & (ComputeNode.hypervisor_hostname == Instance.node)
    query = (
        select(Instance.uuid, Instance.host, Instance.node)
        .outerjoin(ComputeNode, same_node)
        .where(Instance.deleted_at.is_(None), Instance.node.is_not(None), ComputeNode.id.is_(None))
        .order_by(Instance.id)
    )
    for uuid, host, node in patient.session.execute(query):
        yield Finding(
            area=AREA,
            subject=f"server {uuid}",
            problem="is on a node that is not there",
            detail=f"{node} of {host}",
            mend=f"start minova-compute on {host}, minova-manage host rename, or minova server delete {uuid}",
        )


def check_allocations(patient: Patient) -> Iterator[Finding]:
    for finding in gather.findings(patient.session):
        if finding.kind not in _OF_GUESTS:
            yield Finding(
                area="allocations",
                subject=finding.consumer_uuid
                or f"provider {finding.provider_uuid} {finding.resource_class or ''}".strip(),
                problem=finding.kind.value,
                detail=finding.detail,
                mend="minova-manage placement audit --fix" if finding.remedy else "minova-manage placement audit",
            )
