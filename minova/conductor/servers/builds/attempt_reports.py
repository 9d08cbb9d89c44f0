"""What a host reports of one attempt, and the prepared statements that write it. The fence is (instance uuid, attempt): a report on any
other attempt is stale.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import bindparam, or_, select
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.hosts.liveness import COMPUTE
from minova.conductor.servers.finish import BUILDING, EVACUATING, UNSHELVING
from minova.context import RequestContext
from minova.db.models import Instance, Service, Task
from minova.db.servers import state_changes
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.servers import instance as objects
from minova.objects.servers.build import BuildReport, InstanceClaim, ReportAnswer
from minova.objects.servers.chosen_hardware import ChosenHardware
from minova.objects.servers.states import BUILD_STEPS, EVACUABLE, State, TaskState, VmState, build_state, power_state_of

LOG = logging.getLogger(__name__)

_MINE = (Instance.attempt == bindparam("b_attempt"), Instance.host == bindparam("b_host"))
_COMMITTED = (
    select(Task.id)
    .where(
        Task.instance_uuid == Instance.uuid,
        Task.step == "build",
        Task.attempt == bindparam("b_attempt"),
        Task.host == bindparam("b_host"),
        Task.node == bindparam("b_node"),
    )
    .exists()
)

# A host that is forced down, or was removed, starts no guest, although its compute reports: the server may be evacuated from there at
# once. As `hosts/fences.py` says it.
_NOT_FENCED = (
    select(Service.id)
    .where(Service.host == bindparam("b_host"), Service.binary == COMPUTE, Service.forced_down.is_(False))
    .exists()
)


# The vm_states of instances that hosts build.
_BUILT = (VmState.BUILDING, VmState.SHELVED_OFFLOADED, *EVACUABLE)
# A rebuild on its own host has the states of an evacuation: there is no build to report on.
_IS_BUILT = or_(
    # Not `in_`: its parameters cannot be used for several rows at once.
    Instance.vm_state == VmState.BUILDING.value,
    Instance.vm_state == VmState.SHELVED_OFFLOADED.value,
    select(Task.id)
    .where(Task.instance_uuid == Instance.uuid, Task.step == "build", Task.attempt == bindparam("b_attempt"))
    .exists(),
)


def _at(step: TaskState) -> dict[VmState, State]:
    """Returns, by the earlier vm_state, the state of an instance whose build is at this step."""
    return {vm_state: build_state(vm_state, step) for vm_state in _BUILT}


# By the step with which the build begins.
CLAIM: dict[TaskState | None, state_changes.PreparedTransition] = {
    step: state_changes.PreparedTransition(
        (*BUILDING, *UNSHELVING, *EVACUATING),
        _at(step),
        Instance.attempt == bindparam("b_attempt"),
        _COMMITTED,
        _NOT_FENCED,
        host=bindparam("b_host"),
        node=bindparam("b_node"),
        numa_topology=bindparam("b_numa_topology"),
        updated_at=bindparam("b_at"),
    )
    for step in BUILD_STEPS
}
# Steps that a host may report.
BEGUN = (TaskState.SCHEDULING, *BUILD_STEPS)
# By the step that a report names; None: the build has succeeded.
PROGRESS: dict[TaskState | None, state_changes.PreparedTransition] = {
    step: state_changes.PreparedTransition(
        (*BUILDING, *UNSHELVING, *EVACUATING), _at(step), *_MINE, _IS_BUILT, _NOT_FENCED, updated_at=bindparam("b_at")
    )
    for step in BEGUN
}
PROGRESS[None] = state_changes.PreparedTransition(
    (*BUILDING, *UNSHELVING, *EVACUATING),
    dict.fromkeys(_BUILT, (VmState.ACTIVE, None)) | {VmState.STOPPED: (VmState.STOPPED, None)},
    *_MINE,
    _IS_BUILT,
    power_state=bindparam("b_power_state"),
    launched_at=bindparam("b_at"),
    updated_at=bindparam("b_at"),
)


class SomeReportsStale(Exception):
    """Some reports of a transaction are stale, so the whole transaction is rolled back."""

    def __str__(self) -> str:
        return "some of them are stale"


class AttemptReport(msgspec.Struct, frozen=True, kw_only=True):
    """A host's report on one attempt. `row` returns the parameters of its transition's statement."""

    ctx: RequestContext
    instance_uuid: str
    attempt: int
    host: str
    step: TaskState | None = None
    nodes: tuple[ComputeNode, ...] = ()
    values: dict[str, Any] = {}
    rebuilt: bool = False
    hardware: ChosenHardware | None = None

    def row(self, at: datetime) -> dict[str, Any]:
        return {
            "b_uuid": self.instance_uuid,
            "b_attempt": self.attempt,
            "b_host": self.host,
            "b_at": at,
            **self.values,
        }

    def stale(self) -> errors.StaleAttempt:
        return stale(self.instance_uuid, self.attempt, self.host)


def claim_report(claim: InstanceClaim, node: ComputeNode) -> AttemptReport:
    """Raises BadRequest if there is no such step."""
    step = step_of("claim_instance", claim.step or TaskState.BLOCK_DEVICE_MAPPING, BUILD_STEPS)
    return AttemptReport(
        # A host names no message of others, which would count as executed.
        ctx=msgspec.structs.replace(claim.ctx, message=None),
        instance_uuid=claim.instance_uuid,
        attempt=claim.attempt,
        host=node.host,
        step=step,
        nodes=(node,),
        values={"b_node": node.hypervisor_hostname, "b_numa_topology": claim.numa_topology},
    )


def progress_report(report: BuildReport, host: str, nodes: tuple[ComputeNode, ...] = ()) -> AttemptReport:
    """Raises BadRequest if there is no such step."""
    step = step_of("begin_attempt", report.step, BEGUN) if report.step is not None else None
    values = {"b_power_state": int(power_state_of(report.power_state))} if step is None else {}
    return AttemptReport(
        ctx=msgspec.structs.replace(report.ctx, message=None),
        instance_uuid=report.instance_uuid,
        attempt=report.attempt,
        host=host,
        step=step,
        nodes=nodes if step is None else (),
        values=values,
        rebuilt=report.rebuilt,
        hardware=report.hardware if step is None else None,
    )


def answer_of(outcome: object) -> ReportAnswer:
    """Returns the answer to a host for one of several reports."""
    if isinstance(outcome, objects.Instance):
        return ReportAnswer(instance=outcome)
    if isinstance(outcome, errors.StaleAttempt):
        return ReportAnswer(stale=str(outcome))
    if isinstance(outcome, errors.ComputeResourcesUnavailable):
        return ReportAnswer(misfit=str(outcome))
    if isinstance(outcome, Exception):
        if not isinstance(outcome, errors.MinovaError):
            LOG.error("A report could not be written", exc_info=outcome)
        return ReportAnswer(error=str(outcome) or type(outcome).__name__)
    return ReportAnswer()


def step_of(method: str, step: str, steps: Collection[TaskState]) -> TaskState:
    """Raises BadRequest if `step` is not in `steps`."""
    build_step = next((candidate for candidate in steps if candidate.value == step), None)
    if build_step is None:
        raise errors.BadRequest(f"{method}: there is no step {step!r}")
    return build_step


def apply_all(
    session: Session,
    transitions: Mapping[Any, state_changes.PreparedTransition],
    reports: Sequence[AttemptReport],
    at: datetime,
) -> None:
    """Apply each report's transition, by its step. Raises StaleAttempt if the only report is stale, SomeReportsStale if one of
    several is.
    """
    by_step: dict[Any, list[AttemptReport]] = defaultdict(list)
    for report in sorted(reports, key=lambda report: report.instance_uuid):
        by_step[report.step].append(report)
    moved = sum(transitions[step].apply(session, [report.row(at) for report in some]) for step, some in by_step.items())
    if moved != len(reports):
        raise reports[0].stale() if len(reports) == 1 else SomeReportsStale


def stale(instance_uuid: str, attempt: int, host: str) -> errors.StaleAttempt:
    return errors.StaleAttempt(f"Attempt {attempt} of instance {instance_uuid} is not of host {host} any more")
