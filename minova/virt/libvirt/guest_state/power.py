"""Power states of domains: Nova's names for libvirt's states and events, and the ways to run a domain and to end it."""

import time
from collections.abc import Mapping
from typing import Any

import libvirt

from minova import errors
from minova.objects.actions.power_rules import ON
from minova.objects.guests.guest_states import GuestReason, GuestState
from minova.objects.servers.states import PowerState

_Row = tuple[PowerState, GuestReason]
_RUNS: _Row = (PowerState.RUNNING, GuestReason.NONE)
# A job of libvirt has paused it, and lets it go on at its end.
_IN_A_JOB: _Row = (PowerState.PAUSED, GuestReason.NONE)
_PAUSED_BY_OTHER: _Row = (PowerState.PAUSED, GuestReason.PAUSED_BY_OTHER)
_ENDED_BY_OTHER: _Row = (PowerState.SHUTDOWN, GuestReason.ENDED_BY_OTHER)
_OFF: _Row = (PowerState.SHUTDOWN, GuestReason.NONE)
_ASLEEP: _Row = (PowerState.SUSPENDED, GuestReason.ASLEEP)
# By libvirt's state and reason. As in Nova, a domain that is blocked or shutting down still counts as running.
STATES: Mapping[tuple[int, int], _Row] = {
    (libvirt.VIR_DOMAIN_NOSTATE, libvirt.VIR_DOMAIN_NOSTATE_UNKNOWN): (PowerState.NOSTATE, GuestReason.NONE),
    (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_UNKNOWN): _RUNS,
    (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_BOOTED): _RUNS,
    (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_MIGRATED): _RUNS,
    (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_RESTORED): _RUNS,
    (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_FROM_SNAPSHOT): _RUNS,
    (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_UNPAUSED): _RUNS,
    (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_MIGRATION_CANCELED): _RUNS,
    (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_SAVE_CANCELED): _RUNS,
    (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_WAKEUP): _RUNS,
    (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_CRASHED): _RUNS,
    (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_POSTCOPY): _RUNS,
    (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_POSTCOPY_FAILED): _RUNS,
    (libvirt.VIR_DOMAIN_BLOCKED, libvirt.VIR_DOMAIN_BLOCKED_UNKNOWN): _RUNS,
    (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_UNKNOWN): _PAUSED_BY_OTHER,
    (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_USER): _PAUSED_BY_OTHER,
    (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_MIGRATION): _IN_A_JOB,
    (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_SAVE): _IN_A_JOB,
    (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_DUMP): _IN_A_JOB,
    # Which of both kinds it is, the disks say: see `guest_state`.
    (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR): (PowerState.PAUSED, GuestReason.DISK_ERROR),
    (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_WATCHDOG): (PowerState.PAUSED, GuestReason.WATCHDOG),
    (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_FROM_SNAPSHOT): _PAUSED_BY_OTHER,
    (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_SHUTTING_DOWN): _IN_A_JOB,
    (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_SNAPSHOT): _IN_A_JOB,
    (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_CRASHED): (PowerState.PAUSED, GuestReason.PANICKED),
    (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_STARTING_UP): _IN_A_JOB,
    (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_POSTCOPY): _IN_A_JOB,
    (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_POSTCOPY_FAILED): (
        PowerState.PAUSED,
        GuestReason.MIGRATION_BROKEN,
    ),
    # VIR_DOMAIN_PAUSED_API_ERROR of libvirt 9.2: a call of libvirt has failed and left it paused.
    (libvirt.VIR_DOMAIN_PAUSED, 14): _PAUSED_BY_OTHER,
    (libvirt.VIR_DOMAIN_SHUTDOWN, libvirt.VIR_DOMAIN_SHUTDOWN_UNKNOWN): _RUNS,
    (libvirt.VIR_DOMAIN_SHUTDOWN, libvirt.VIR_DOMAIN_SHUTDOWN_USER): _RUNS,
    # As after a start of the host.
    (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_UNKNOWN): _OFF,
    (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN): (PowerState.SHUTDOWN, GuestReason.SHUT_DOWN),
    (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED): _ENDED_BY_OTHER,
    (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_CRASHED): (PowerState.CRASHED, GuestReason.CRASHED),
    (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_MIGRATED): _OFF,
    (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_SAVED): (PowerState.SHUTDOWN, GuestReason.SAVED_BY_OTHER),
    (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_FAILED): _OFF,
    (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_FROM_SNAPSHOT): _ENDED_BY_OTHER,
    (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_DAEMON): _ENDED_BY_OTHER,
    (libvirt.VIR_DOMAIN_CRASHED, libvirt.VIR_DOMAIN_CRASHED_UNKNOWN): (PowerState.CRASHED, GuestReason.CRASHED),
    (libvirt.VIR_DOMAIN_CRASHED, libvirt.VIR_DOMAIN_CRASHED_PANICKED): (PowerState.CRASHED, GuestReason.PANICKED),
    # ACPI S3. libvirt is also in this state for a moment when a guest hibernates (S4), and then switches itself off.
    (libvirt.VIR_DOMAIN_PMSUSPENDED, libvirt.VIR_DOMAIN_PMSUSPENDED_UNKNOWN): _ASLEEP,
}
# For reasons that this table does not know: as for those that libvirt does not know.
_OF_STATE: Mapping[int, _Row] = {state: row for (state, reason), row in STATES.items() if reason == 0}
_NO_STATE: _Row = (PowerState.NOSTATE, GuestReason.NONE)
_HAVE_REASONS = frozenset(
    (
        libvirt.VIR_DOMAIN_PAUSED,
        libvirt.VIR_DOMAIN_SHUTOFF,
        libvirt.VIR_DOMAIN_CRASHED,
        libvirt.VIR_DOMAIN_PMSUSPENDED,
    )
)
# Seconds within which QEMU says that a guest has woken, and between questions.
_WAKES_WITHIN, _WAKE_POLL = 5.0, 0.02
_EVENTS = {
    libvirt.VIR_DOMAIN_EVENT_STARTED: PowerState.RUNNING,
    libvirt.VIR_DOMAIN_EVENT_RESUMED: PowerState.RUNNING,
    libvirt.VIR_DOMAIN_EVENT_SUSPENDED: PowerState.PAUSED,
    libvirt.VIR_DOMAIN_EVENT_PMSUSPENDED: PowerState.SUSPENDED,
    libvirt.VIR_DOMAIN_EVENT_STOPPED: PowerState.SHUTDOWN,
    libvirt.VIR_DOMAIN_EVENT_CRASHED: PowerState.CRASHED,
}


def state_of(domain: Any) -> PowerState:
    return _row(*domain.state())[0]


def guest_state(domain: Any) -> GuestState:
    """Returns the domain's state with its reason."""
    code, number = domain.state()
    state, reason = _row(code, number)
    detail = f"libvirt: state {code}, reason {number}"
    if (code, number) == (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR):
        failed = _disk_errors(domain)
        if libvirt.VIR_DOMAIN_DISK_ERROR_NO_SPACE in failed.values():
            reason = GuestReason.DISK_FULL
        detail = f"I/O error of {', '.join(sorted(failed)) or 'a disk'}"
    return GuestState(state, reason, detail)


def _disk_errors(domain: Any) -> dict[str, int]:
    """Returns {disk: virDomainDiskErrorCode}; nothing if the guest's monitor does not answer, or if it goes on just now."""
    try:
        return dict(domain.diskErrors())
    except libvirt.libvirtError:
        return {}


def view_of_state(domain: Any, code: int) -> tuple[PowerState, GuestReason]:
    """Returns the power state of a virDomainState that was read from the domain, and the reason. Asks the domain only if
    states like this one have reasons.
    """
    if code not in _HAVE_REASONS:
        return _row(code, 0)
    now = guest_state(domain)
    return now.power_state, now.reason


def _row(code: int, reason: int) -> _Row:
    return STATES.get((code, reason)) or _OF_STATE.get(code, _NO_STATE)


def state_after(event: int, detail: int) -> PowerState | None:
    """Returns the state to which a lifecycle event leads; None for events that change no state."""
    if (event, detail) == (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED):
        return PowerState.CRASHED
    if (event, detail) == (libvirt.VIR_DOMAIN_EVENT_PMSUSPENDED, libvirt.VIR_DOMAIN_EVENT_PMSUSPENDED_DISK):
        return None  # it hibernates, and the event that it is off follows
    return _EVENTS.get(event)


def require_going_on(domain: Any, seconds: float) -> None:
    """Raises GuestDiskFull or GuestDiskFailed if the guest stands still again within that time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        state = guest_state(domain)
        if state.reason is GuestReason.DISK_FULL:
            raise errors.GuestDiskFull(f"Domain {domain.name()} cannot go on, there is no space: {state.detail}")
        if state.reason is GuestReason.DISK_ERROR:
            raise errors.GuestDiskFailed(f"Domain {domain.name()} cannot go on: {state.detail}")
        time.sleep(0.1)


def runs(domain: Any) -> bool:
    """Whether the guest runs. The CPUs of one that was paused, or sleeps, go on. Raises as `wake`."""
    state = state_of(domain)
    if state is PowerState.PAUSED:
        domain.resume()
    else:
        wake(domain)
    return state in ON


def wake(domain: Any) -> None:
    """Wake the guest if it sleeps. libvirt refuses most operations on a guest that sleeps, and saves its memory so that it never
    wakes again. Raises GuestAsleep if it cannot be woken.
    """
    if state_of(domain) is not PowerState.SUSPENDED:
        return
    try:
        domain.pMWakeup(0)
    except libvirt.libvirtError as error:
        if state_of(domain) is PowerState.SUSPENDED:  # else it has woken by itself meanwhile
            raise errors.GuestAsleep(f"Domain {domain.name()} sleeps, and cannot be woken: {error}") from error
    until = time.monotonic() + _WAKES_WITHIN
    while state_of(domain) is PowerState.SUSPENDED:
        if time.monotonic() >= until:
            raise errors.GuestAsleep(f"Domain {domain.name()} sleeps on after a wakeup")
        time.sleep(_WAKE_POLL)


def end(domain: Any) -> None:
    """Destroy the domain if it runs. It may end by itself meanwhile."""
    if not domain.isActive():
        return
    try:
        domain.destroy()
    except libvirt.libvirtError:
        if domain.isActive():
            raise
