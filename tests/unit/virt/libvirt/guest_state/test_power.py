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


class Domain:
    def __init__(self, state: int, reason: int, failed: dict[str, int] | None = None) -> None:
        self.states = [(state, reason)]
        self.failed = failed or {}

    def name(self) -> str:
        return "one"

    def state(self) -> list[int]:
        return [*(self.states.pop() if len(self.states) > 1 else self.states[0])]

    def diskErrors(self) -> dict[str, int]:  # noqa: N802  - libvirt's name
        return self.failed


def state_of(domain: Any) -> tuple[PowerState, GuestReason]:
    guest_state = power.guest_state(domain)
    return guest_state.power_state, guest_state.reason


@pytest.mark.parametrize(("name", "state", "reason"), reasons(), ids=[name for name, _, _ in reasons()])
def test_every_reason_of_libvirt_has_a_row(name: str, state: int, reason: int) -> None:
    assert (state, reason) in power.STATES


def test_a_reason_of_a_later_libvirt_has_the_power_state_alone() -> None:
    assert state_of(Domain(libvirt.VIR_DOMAIN_PAUSED, 99)) == (PowerState.PAUSED, GuestReason.NONE)
    assert state_of(Domain(99, 0)) == (PowerState.NOSTATE, GuestReason.NONE)


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
