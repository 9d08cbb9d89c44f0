"""How often hosts are told of the members of their groups."""

from typing import Any

import pytest

from minova.conductor.network import interface_notifier
from minova.conductor.tasks.worker import TaskWorker
from minova.objects.network.network import Network
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, request
from tests.functional.conductor.network_cases import network, on, port, subnet


class Clock:
    """A message takes `message` seconds, and pauses are noted and over at once."""

    message = 0.0

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def pause(self, seconds: float) -> bool:
        self.pauses.append(round(seconds, 3))
        self.now += seconds
        return False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, harness: ConductorHarness) -> Clock:
    clock = Clock()
    monkeypatch.setattr(interface_notifier, "time", clock)
    monkeypatch.setattr(TaskWorker, "pause", lambda worker, seconds: clock.pause(seconds))
    host = harness.hosts["a"]
    told = host.refresh_members

    def refresh_members(*words: Any, **named: Any) -> None:
        clock.now += clock.message
        told(*words, **named)

    monkeypatch.setattr(host, "refresh_members", refresh_members)
    return clock


@pytest.fixture
def flat(harness: ConductorHarness, clock: Clock) -> Network:
    """A network with a server, whose host is told of the members of its group. Nothing waits to be told."""
    flat = network(harness, network_type="flat", physical_network="dc1")
    subnet(harness, flat, "10.1.0.0/24")
    harness.active(**on(flat))
    harness.settle()
    clock.now += 60.0
    clock.pauses.clear()
    harness.hosts["a"].members.clear()
    return flat


@pytest.mark.parametrize(
    ("message", "pause"),
    [
        pytest.param(0.05, 0.95, id="once a second"),
        pytest.param(0.2, 3.8, id="a twentieth of the time"),
        pytest.param(3.0, 2.0, id="every five seconds at the latest"),
        pytest.param(7.0, None, id="one after the other when it takes longer"),
    ],
)
def test_new_members_are_told_at_once_and_then_at_intervals(
    harness: ConductorHarness, clock: Clock, flat: Network, message: float, pause: float | None
) -> None:
    clock.message = message
    members = harness.hosts["a"].members
    for told_before in (len(members), len(members) + 1):
        port(harness, flat)
        harness.settle()
        assert len(members) == told_before + 1
    assert clock.pauses == ([] if pause is None else [pause])


def test_servers_that_are_created_are_told_together_later(
    harness: ConductorHarness, clock: Clock, flat: Network
) -> None:
    """Their guests must boot first, and the messages would take time from their builds."""
    harness.conductor.create_servers(CTX, request=request(1, **on(flat)))
    clock.now += 0.5
    harness.conductor.create_servers(CTX, request=request(1, **on(flat)))
    harness.settle()
    (members,) = harness.hosts["a"].members
    assert (members.ranges("", 4), clock.pauses) == (("10.1.0.2/31", "10.1.0.4/32"), [2.5])


def test_other_changes_do_not_wait_for_servers_that_are_created(
    harness: ConductorHarness, clock: Clock, flat: Network
) -> None:
    harness.conductor.create_servers(CTX, request=request(1, **on(flat)))
    port(harness, flat)
    (_, waits), *_, (_, tells) = harness.waiting
    tells()
    (members,) = harness.hosts["a"].members
    assert (members.ranges("", 4), clock.pauses) == (("10.1.0.2/31", "10.1.0.4/32"), [])
    waits()
    assert len(harness.hosts["a"].members) == 1, "nothing is left to be told"


def test_few_jobs_wait_however_changes_alternate(harness: ConductorHarness, clock: Clock, flat: Network) -> None:
    """They have a few threads, which changes of rules need, too."""
    times = 3
    for _ in range(times):
        harness.conductor.create_servers(CTX, request=request(1, **on(flat)))
        port(harness, flat)
        clock.now += 0.9
        _, sends = harness.waiting.pop()
        sends()
    assert len(harness.hosts["a"].members) == times
    assert len(harness.waiting) == times + 1, "those that schedule, and one that waits for what is being created"
