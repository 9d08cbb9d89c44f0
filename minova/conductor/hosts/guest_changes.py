"""What becomes of instances whose guests have changed without an action of minova. `objects/actions/guest_changes.py`
decides; this module writes states, records, faults and notifications in one transaction.

A report may come late or twice, when an action has changed the instance since. So a report that would change an instance only counts if
its host read the state after the instance's last action:

    host       states                                ----> conductor   the instance would change: returns its last action
    host       reads the states again, and reports
               them with those actions               ----> conductor   no later action: the instance changes
"""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from minova.conductor.notifications.instances import note
from minova.context import RequestContext
from minova.db.servers import actions, instances, state_changes
from minova.db.servers.instances import IdleInstance
from minova.objects.actions.guest_changes import GuestChange, LastAction, change_of
from minova.objects.guests.guest_states import GuestState, reason_of
from minova.objects.servers.failures import Failure
from minova.objects.servers.states import PowerState, VmState

LOG = logging.getLogger(__name__)


def guest_states(states: Mapping[str, int], reasons: Mapping[str, str]) -> dict[str, GuestState]:
    """Returns the reported states that have a meaning here."""
    return {
        uuid: GuestState(PowerState(state), reason_of(reasons.get(uuid, "")))
        for uuid, state in states.items()
        if state in [*PowerState]
    }


def follow(
    session: Session,
    ctx: RequestContext,
    host: str,
    reported: Mapping[str, GuestState],
    after: Mapping[str, LastAction] | None,
    at: datetime,
) -> dict[str, LastAction] | None:
    """Change the idle instances of the host as their guests have changed.

    `after`: the actions after which the host has read the states; None: a host of an earlier release names none.
    Returns the last actions of those instances that would change and had a later action. They stay as they are.
    """
    would_change = {
        idle: change
        for idle in instances.idle_on(session, host, reported)
        if (change := change_of(idle.vm_state, idle.power_state, reported[idle.uuid])) is not None
        # Its confirmation makes a stopped server of one whose guest is off.
        or (idle.vm_state is VmState.RESIZED and reported[idle.uuid].power_state is not idle.power_state)
    }
    last = actions.last_of(session, [idle.uuid for idle in would_change]) if after is not None and would_change else {}
    unproved = {
        idle.uuid: last.get(idle.uuid, LastAction())
        for idle in would_change
        if after is not None and after.get(idle.uuid) != last.get(idle.uuid, LastAction())
    }
    changed: dict[GuestChange, list[IdleInstance]] = {}
    for idle, change in would_change.items():
        if change is not None and idle.uuid not in unproved:
            changed.setdefault(change, []).append(idle)
    for change, several in changed.items():
        _write(session, ctx, host, change, several, at)
    states = {uuid: state.power_state for uuid, state in reported.items() if uuid not in unproved}
    instances.set_power_states(session, host, states, at)
    return None if after is None else unproved


def _write(
    session: Session,
    ctx: RequestContext,
    host: str,
    change: GuestChange,
    several: Sequence[IdleInstance],
    at: datetime,
) -> None:
    uuids = [idle.uuid for idle in several]
    failure = Failure(kind=change.kind, details=f"Reported by host {host}") if change.kind else None
    text = change.text or (failure.message if failure is not None else "")
    LOG.warning("Host %s reports: %s Instances: %s", host, text, ", ".join(uuids))
    if change.after is not None:
        before = [(state, None) for state in sorted({idle.vm_state for idle in several})]
        state_changes.transition(session, uuids, before, (change.after, None), updated_at=at)
    _record(session, ctx, host, change, failure, several, at)
    if failure is not None:
        actions.add_faults(session, uuids, at, failure)
        note(session, f"{change.action}.error", uuids, host, failure.kind, text)
    elif change.after is None:
        instances.hide_faults(session, uuids)
        note(session, f"{change.action}.end", uuids, host)


def _record(
    session: Session,
    ctx: RequestContext,
    host: str,
    change: GuestChange,
    failure: Failure | None,
    several: Sequence[IdleInstance],
    at: datetime,
) -> None:
    """Write a record that has begun and ended now. It names no user, since none has asked for the change."""
    ended: dict[str, Any] = {
        "start_time": at,
        "finish_time": at,
        "result": "Success" if failure is None else "Error",
    }
    common = {"action": change.action, "request_id": ctx.request_id, "user_id": "", **ended}
    message = change.text if failure is None else failure.message
    rows = [
        {"instance_uuid": idle.uuid, "project_id": idle.project_id, "message": message, **common} for idle in several
    ]
    details = {} if failure is None else {"details": failure.details, "kind": failure.kind}
    action_ids = actions.begin(session, rows).values()
    actions.begin_events(
        session,
        [{"action_id": number, "event": change.event, "host": host, **ended, **details} for number in action_ids],
    )
