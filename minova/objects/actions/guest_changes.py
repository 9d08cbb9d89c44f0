"""What minova does about a change of a guest that no action has asked for. Pure.

    reason            power state   the instance      fault   record                its guest
    disk_full         paused        as it was         yes     guest_paused          stands still until there is space again
    disk_error        paused        as it was         yes     guest_paused          stands still
    watchdog          paused        as it was         yes     guest_paused          stands still
    panicked          paused        as it was         yes     guest_crash           stands still
    panicked          crashed       stopped           yes     guest_crash           is off
    migration_broken  paused        as it was         yes     guest_paused          stands still
    paused_by_other   paused        as it was         yes     guest_paused          stands still
    asleep            suspended     as it was         yes     guest_paused          has put itself to sleep, and wakes by itself or by an action
    crashed           crashed       stopped           yes     guest_crash           is off
    shut_down         shut down     stopped           no      stop                  has shut itself down
    ended_by_other    shut down     stopped           no      stop                  is off
    saved_by_other    shut down     stopped           no      stop                  is off; its next start goes on from its memory
    (none)            shut down     stopped           no      stop                  was found off
    (none)            paused        as it was         no      none                  stands still during a job of the hypervisor
    (any)             running       as it was         no      unpause, if it stood  goes on

Nova stops a server whose guest has put itself to sleep, so its memory is lost. Here the guest keeps its memory, and can be woken.

`stopped` holds for instances that are active or paused, as in Nova; of others only the power state changes, and a fault is
added. No rule changes an instance that has a task.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from minova.objects.actions.power_rules import OFF, RUNS_BY_ITSELF, STOPS_BY_ITSELF
from minova.objects.guests.guest_states import SHOULD_RUN, STANDING, GuestReason, GuestState
from minova.objects.hosts.bounds import Count, Line
from minova.objects.servers.states import PowerState, VmState

# The kinds of failure (`failures.py`) of guests that stand still or have crashed.
FAULTS: Mapping[GuestReason, str] = {
    GuestReason.DISK_FULL: "GuestDiskFull",
    GuestReason.DISK_ERROR: "GuestDiskFailed",
    GuestReason.WATCHDOG: "GuestWatchdog",
    GuestReason.PANICKED: "GuestPanicked",
    GuestReason.MIGRATION_BROKEN: "GuestMigrationBroken",
    GuestReason.PAUSED_BY_OTHER: "GuestPausedByOther",
    GuestReason.ASLEEP: "GuestAsleep",
    GuestReason.CRASHED: "GuestCrashed",
}
# The texts of stops that are no faults.
STOPS: Mapping[GuestReason, str] = {
    GuestReason.NONE: "The guest was found off.",
    GuestReason.SHUT_DOWN: "The guest has shut itself down.",
    GuestReason.ENDED_BY_OTHER: "The guest was ended on its host.",
    GuestReason.SAVED_BY_OTHER: "The memory of the guest was saved on its host.",
}
# The reasons of states that a host of an earlier release reports without a reason.
_UNSAID: Mapping[PowerState, GuestReason] = {
    PowerState.CRASHED: GuestReason.CRASHED,
    PowerState.SUSPENDED: GuestReason.ASLEEP,
}
_CRASHES = frozenset({GuestReason.CRASHED, GuestReason.PANICKED})


class LastAction(msgspec.Struct, frozen=True, kw_only=True):
    """The newest action of an instance. A restored database gives the number of an action to another one, so its request belongs to
    its identity. The defaults are of an instance without any.
    """

    number: Count = 0
    request_id: Line = ""


class GuestChange(NamedTuple):
    """`after`: the new vm_state; None: it does not change.
    `action`, `event`: in the record of the instance, which names no user.
    `kind`: of the failure; empty: it is none, and `text` says what has happened.
    """

    after: VmState | None
    action: str
    event: str
    kind: str = ""
    text: str = ""


def change_of(vm_state: VmState, before: PowerState, now: GuestState) -> GuestChange | None:
    """Returns what becomes of an idle instance in this vm_state, whose row has the power state `before`; None: only its
    power state changes.
    """
    state = now.power_state
    reason = now.reason or _UNSAID.get(state, GuestReason.NONE)
    if state in OFF:
        return _when_off(vm_state, before, reason)
    if state is PowerState.RUNNING and vm_state in RUNS_BY_ITSELF:
        return GuestChange(VmState.ACTIVE, "unshelve", "guest_runs", text="The guest runs though shelved.")
    if vm_state not in SHOULD_RUN or before is state:
        return None
    if state in STANDING and reason in FAULTS:
        name = "guest_crash" if reason in _CRASHES else "guest_paused"
        return GuestChange(None, name, name, FAULTS[reason])
    if state is PowerState.RUNNING and before in STANDING:
        return GuestChange(None, "unpause", "guest_goes_on", text="The guest goes on.")
    return None


def _when_off(vm_state: VmState, before: PowerState, reason: GuestReason) -> GuestChange | None:
    after = VmState.STOPPED if vm_state in STOPS_BY_ITSELF else None
    if reason in _CRASHES and (after or (vm_state in SHOULD_RUN and before not in OFF)):
        return GuestChange(after, "guest_crash", "guest_crash", FAULTS[reason])
    if after is None:
        return None
    event = "guest_shutdown" if reason is GuestReason.SHUT_DOWN else "guest_off"
    return GuestChange(after, "stop", event, text=STOPS.get(reason, STOPS[GuestReason.NONE]))
