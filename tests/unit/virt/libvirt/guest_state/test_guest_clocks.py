"""The clock of a guest whose CPUs have stood still is set by its agent, if there is one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import libvirt
import pytest

from minova.errors import HypervisorUnavailable
from minova.virt.libvirt.guest_state.guest_clocks import TRIES, GuestClocks
from tests.waiting import wait_for

AGENT = "<devices><channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel></devices>"


def error(code: int) -> libvirt.libvirtError:
    libvirt_error = libvirt.libvirtError("the agent")
    libvirt_error.err = (code, libvirt.VIR_FROM_QEMU, "the agent", 2, "", "", "", 0, 0)
    return libvirt_error


class Domain:
    """What libvirt has of a guest: the answers of its agent, one for each question."""

    def __init__(self, *answers: int | None, devices: str = AGENT) -> None:
        self.answers, self.devices = list(answers), devices
        self.set_to: list[tuple[int, int]] = []
        self.timeouts: list[int] = []

    def XMLDesc(self, flags: int) -> str:  # noqa: N802  - libvirt's name
        return f"<domain>{self.devices}</domain>"

    def UUIDString(self) -> str:  # noqa: N802  - libvirt's name
        return "u"

    def agentSetResponseTimeout(self, timeout: int, flags: int) -> None:  # noqa: N802  - libvirt's name
        self.timeouts.append(timeout)

    def setTime(self, moment: dict[str, int]) -> None:  # noqa: N802  - libvirt's name
        code = self.answers.pop(0)
        if code is not None:
            raise error(code)
        self.set_to.append((moment["seconds"], moment["nseconds"]))

    def lookupByUUIDString(self, uuid: str) -> "Domain":  # noqa: N802  - libvirt's name
        return self


def clocks(domain: Domain, pauses: list[float] | None = None) -> GuestClocks:
    @contextmanager
    def connect(purpose: str, uuid: str) -> Iterator[Any]:
        yield domain

    return GuestClocks(connect, pause=([] if pauses is None else pauses).append, now=lambda: 1000.25)


def test_the_agent_sets_the_clock_in_the_background() -> None:
    domain = Domain(None)
    clocks(domain).set_soon(domain)
    wait_for("the clock", lambda: domain.set_to == [(1000, 250_000_000)])
    assert all(0 < timeout <= 10 for timeout in domain.timeouts)


def test_a_guest_without_an_agent_is_not_asked() -> None:
    domain = Domain(devices="<devices/>")
    clocks(domain).set_soon(domain)
    assert not domain.timeouts


def test_an_agent_that_is_not_connected_yet_is_asked_again() -> None:
    pauses: list[float] = []
    domain = Domain(libvirt.VIR_ERR_AGENT_UNRESPONSIVE, libvirt.VIR_ERR_AGENT_UNRESPONSIVE, None)
    clocks(domain, pauses).set("u")
    assert (len(pauses), domain.set_to) == (2, [(1000, 250_000_000)])


def test_an_agent_that_never_answers_is_left_alone_in_the_end() -> None:
    domain = Domain(*[libvirt.VIR_ERR_AGENT_UNRESPONSIVE] * TRIES)
    clocks(domain).set("u")
    assert not domain.set_to


@pytest.mark.parametrize("code", [libvirt.VIR_ERR_OPERATION_UNSUPPORTED, libvirt.VIR_ERR_NO_DOMAIN])
def test_other_answers_are_no_error_and_no_reason_to_ask_again(code: int) -> None:
    domain = Domain(code)
    clocks(domain).set("u")
    assert not domain.set_to


def test_a_libvirt_that_is_away_is_no_error() -> None:
    @contextmanager
    def connect(purpose: str, uuid: str) -> Iterator[Any]:
        raise HypervisorUnavailable("away")
        yield

    GuestClocks(connect, pause=lambda seconds: None).set("u")


def test_the_agent_of_a_guest_that_boots_has_more_time() -> None:
    domain = Domain(*[libvirt.VIR_ERR_AGENT_UNRESPONSIVE] * (TRIES + 1), None)
    clocks(domain).set_when_booted(domain)
    wait_for("the clock", lambda: domain.set_to == [(1000, 250_000_000)])
