"""A message to a compute that could not be sent, or that a restarted broker lost, waited for the compute's audit: a minute."""

from pathlib import Path

import pytest

from minova.conductor.compute_messages import BACKOFF, UnsentMessages
from tests.functional.conductor.conductor_harness import ConductorHarness
from tests.tables import make_tables


@pytest.fixture
def harness(tmp_path: Path) -> ConductorHarness:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    make_tables(url)
    return ConductorHarness(url)


def builds(harness: ConductorHarness, host: str = "a") -> list[str]:
    return [build.instance.uuid for build in harness.hosts[host].builds]


def test_a_build_that_could_not_be_sent_is_sent_again_soon(harness: ConductorHarness) -> None:
    harness.hosts["a"].deaf = True
    (uuid,) = harness.create()
    harness.hosts["a"].deaf = False
    harness.conductor.collaborators.reconcile._computes.unsent._ticks = lambda: float("inf")
    harness.tick(harness.conductor)
    assert builds(harness) == [uuid]
    harness.tick(harness.conductor)
    assert builds(harness) == [uuid], "once"


def test_a_deletion_that_could_not_be_sent_is_sent_again_soon(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.hosts["a"].deaf = True
    harness.delete(uuid)
    harness.hosts["a"].deaf = False
    harness.conductor.collaborators.reconcile._computes.unsent._ticks = lambda: float("inf")
    harness.tick(harness.conductor)
    assert harness.hosts["a"].terminated == [uuid]


def test_after_a_restart_of_the_broker_what_no_host_has_taken_up_is_sent_again(harness: ConductorHarness) -> None:
    claimed, lost, deleted = harness.create()[0], harness.create()[0], harness.active()
    harness.claim("a", claimed)
    harness.delete(deleted)
    harness.hosts["a"].builds.clear()
    harness.hosts["a"].terminated.clear()
    harness.tick(harness.conductor)
    assert (builds(harness), harness.hosts["a"].terminated) == ([], [])
    harness.conductor.broker_is_back()
    harness.tick(harness.conductor)
    assert (builds(harness), harness.hosts["a"].terminated) == ([lost], [deleted])
    harness.tick(harness.conductor)
    assert (builds(harness), harness.hosts["a"].terminated) == ([lost], [deleted]), "once"


def test_pauses_grow_and_end_with_a_message_that_was_sent() -> None:
    now = [0.0]
    unsent = UnsentMessages(lambda: now[0])
    pauses = []
    for _ in range(8):
        unsent.failed("i")
        begun = now[0]
        while not unsent.due():
            now[0] += 0.5
        pauses.append(now[0] - begun)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    unsent.failed("i")
    unsent.sent("i")
    now[0] += 100.0
    assert unsent.due() == frozenset()
    unsent.failed("i")
    now[0] += BACKOFF.first
    assert unsent.due() == {"i"}
