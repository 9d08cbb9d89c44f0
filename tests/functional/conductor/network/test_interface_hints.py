"""How often hosts are told of the members of their groups."""

from typing import Any

import pytest

from minova.conductor.network import interface_hints
from minova.conductor.tasks.worker import Worker
from tests.functional.conductor.conductor_harness import ConductorHarness
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
    monkeypatch.setattr(interface_hints, "time", clock)
    monkeypatch.setattr(Worker, "pause", lambda worker, seconds: clock.pause(seconds))
    host = harness.hosts["a"]
    told = host.refresh_members

    def refresh_members(*words: Any, **named: Any) -> None:
        clock.now += clock.message
        told(*words, **named)

    monkeypatch.setattr(host, "refresh_members", refresh_members)
    return clock


@pytest.mark.parametrize(
    ("message", "pause"),
    [
        pytest.param(0.05, 0.95, id="once a second"),
        pytest.param(0.2, 1.8, id="a tenth of the time"),
        pytest.param(3.0, 2.0, id="every five seconds at the latest"),
        pytest.param(7.0, None, id="one after the other when it takes longer"),
    ],
)
def test_new_members_are_told_at_once_and_then_at_intervals(
    harness: ConductorHarness, clock: Clock, message: float, pause: float | None
) -> None:
    flat = network(harness, network_type="flat", physical_network="dc1")
    subnet(harness, flat, "10.1.0.0/24")
    harness.active(**on(flat))
    harness.settle()
    clock.now += 60.0
    clock.pauses.clear()
    clock.message = message
    members = harness.hosts["a"].members
    for told_before in (len(members), len(members) + 1):
        port(harness, flat)
        harness.settle()
        assert len(members) == told_before + 1
    assert clock.pauses == ([] if pause is None else [pause])
