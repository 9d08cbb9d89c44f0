"""Each state and reason of libvirt has a row; the disks of a guest say which I/O error has paused it."""

from typing import Any

import libvirt
import pytest

from minova import errors
from minova.objects.guests.guest_states import GuestReason
from minova.objects.servers.states import PowerState
from minova.virt.libvirt.guest_state import power

_STATES = ("NOSTATE", "RUNNING", "BLOCKED", "PAUSED", "SHUTDOWN", "SHUTOFF", "CRASHED", "PMSUSPENDED")
# These names are not reasons of states: flags of a call, and a name that libvirt never returns.
_OTHER = ("VIR_DOMAIN_SHUTDOWN_", "VIR_DOMAIN_PMSUSPENDED_DISK_UNKNOWN")


def reasons() -> list[tuple[str, int, int]]:
    cases = []
    for state in _STATES:
        prefix = f"VIR_DOMAIN_{state}_"
        names = [name for name in dir(libvirt) if name.startswith(prefix) and not name.startswith(_OTHER)]
        cases += [(name, getattr(libvirt, f"VIR_DOMAIN_{state}"), getattr(libvirt, name)) for name in names]
    assert len(cases) >= 40
    return cases


ASLEEP = (libvirt.VIR_DOMAIN_PMSUSPENDED, libvirt.VIR_DOMAIN_PMSUSPENDED_UNKNOWN)
AWAKE = (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_WAKEUP)


class Domain:
    """`states`: the last is that of now, and each question leads to the one before."""

    def __init__(self, state: int, reason: int, failed: dict[str, int] | None = None) -> None:
        self.states = [(state, reason)]
        self.failed = failed or {}
        self.refusal: libvirt.libvirtError | None = None
        self.wakeups = 0

    def name(self) -> str:
        return "one"

    def state(self) -> list[int]:
        return [*(self.states.pop() if len(self.states) > 1 else self.states[0])]

    def pMWakeup(self, flags: int) -> None:  # noqa: N802  - libvirt's name
        if self.refusal is not None:
            raise self.refusal
        self.wakeups += 1

    def diskErrors(self) -> dict[str, int]:  # noqa: N802  - libvirt's name
        return self.failed


def state_of(domain: Any) -> tuple[PowerState, GuestReason]:
    guest_state = power.guest_state(domain)
    return guest_state.power_state, guest_state.reason


@pytest.mark.parametrize(("name", "state", "reason"), reasons(), ids=[name for name, _, _ in reasons()])
def test_every_reason_of_libvirt_has_a_row(name: str, state: int, reason: int) -> None:
    assert (state, reason) in power.STATES


def test_a_reason_of_a_later_libvirt_has_the_power_state_alone() -> None:
    assert state_of(Domain(libvirt.VIR_DOMAIN_SHUTOFF, 99)) == (PowerState.SHUTDOWN, GuestReason.NONE)
    assert state_of(Domain(99, 0)) == (PowerState.NOSTATE, GuestReason.NONE)


def test_bug_guest_that_a_later_libvirt_pauses_stands_still_without_a_word() -> None:
    assert state_of(Domain(libvirt.VIR_DOMAIN_PAUSED, 99)) == (PowerState.PAUSED, GuestReason.PAUSED_BY_OTHER)


@pytest.mark.parametrize("code", [libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PMSUSPENDED])
def test_only_a_job_of_libvirt_holds_a_guest_without_a_reason(code: int) -> None:
    jobs = {"MIGRATION", "SAVE", "DUMP", "SHUTTING_DOWN", "SNAPSHOT", "STARTING_UP", "POSTCOPY"}
    numbers = {getattr(libvirt, f"VIR_DOMAIN_PAUSED_{job}") for job in jobs}
    silent = {number for (state, number), (_, reason) in power.STATES.items() if state == code and not reason}
    assert silent == (numbers if code == libvirt.VIR_DOMAIN_PAUSED else set())


def test_bug_guest_that_sleeps_has_no_reason() -> None:
    domain = Domain(*ASLEEP)
    expected = (PowerState.SUSPENDED, GuestReason.ASLEEP)
    assert state_of(domain) == expected
    assert power.view_of_state(domain, libvirt.VIR_DOMAIN_PMSUSPENDED) == expected


def test_a_guest_that_hibernates_is_not_asleep_but_soon_off() -> None:
    event = libvirt.VIR_DOMAIN_EVENT_PMSUSPENDED
    assert power.state_after(event, libvirt.VIR_DOMAIN_EVENT_PMSUSPENDED_MEMORY) is PowerState.SUSPENDED
    assert power.state_after(event, libvirt.VIR_DOMAIN_EVENT_PMSUSPENDED_DISK) is None


def test_a_guest_has_woken_when_libvirt_says_so() -> None:
    """QEMU says it some time after its answer."""
    domain = Domain(*ASLEEP)
    domain.states = [AWAKE, ASLEEP, ASLEEP, ASLEEP]
    power.wake(domain)
    assert (domain.states, domain.wakeups) == ([AWAKE], 1)
    power.wake(domain)
    assert domain.wakeups == 1


def test_a_guest_that_wakes_by_itself_meanwhile_is_awake() -> None:
    domain = Domain(*ASLEEP)
    domain.states, domain.refusal = [AWAKE, ASLEEP], libvirt.libvirtError("guest is not in suspended state")
    power.wake(domain)


def test_a_guest_that_cannot_wake_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Domain(*ASLEEP)
    domain.refusal = libvirt.libvirtError("wake-up from suspend is not supported")
    with pytest.raises(errors.GuestAsleep, match=r"one sleeps.*is not supported"):
        power.wake(domain)
    domain.refusal = None
    monkeypatch.setattr(power, "_WAKES_WITHIN", 0.0)
    with pytest.raises(errors.GuestAsleep, match="sleeps on"):
        power.wake(domain)


@pytest.mark.parametrize(
    ("failed", "reason"),
    [
        ({"vda": libvirt.VIR_DOMAIN_DISK_ERROR_NO_SPACE}, GuestReason.DISK_FULL),
        ({"vda": libvirt.VIR_DOMAIN_DISK_ERROR_UNSPEC}, GuestReason.DISK_ERROR),
        ({}, GuestReason.DISK_ERROR),
    ],
)
def test_the_disks_say_why_they_have_paused_the_guest(failed: dict[str, int], reason: GuestReason) -> None:
    domain = Domain(libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR, failed)
    assert state_of(domain) == (PowerState.PAUSED, reason)


def test_a_guest_whose_disk_stops_it_again_has_not_gone_on() -> None:
    full = {"vda": libvirt.VIR_DOMAIN_DISK_ERROR_NO_SPACE}
    domain = Domain(libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR, full)
    domain.states.append((libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_UNPAUSED))
    with pytest.raises(errors.GuestDiskFull, match="vda"):
        power.require_going_on(domain, 60.0)
