"""A conductor that had read the hosts right before one of them was renamed took it for removed, and so for fenced: what had waited for it
went on without it, although its guests ran.
"""

import pytest

from minova import errors
from minova.conductor.hosts.liveness import HostLiveness, is_fenced
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, new_request
from tests.functional.conductor.hosts.test_rename import rename, silence_others
from tests.functional.conductor.moves.test_evacuate import evacuate, fence


def renamed(harness: ConductorHarness, old: str) -> None:
    """When what waits for the host is due, and a conductor has just read the hosts for another request."""
    silence_others(harness, *(name for name in harness.hosts if name != old))
    with pytest.raises(errors.NotFound):
        harness.conductor.start_action(new_request(), instance_uuid="none", action="stop")
    rename(harness, old, "z")
    harness.tick(harness.conductor)


def test_an_action_waits_for_it(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    action_id = harness.act(uuid, "stop")
    harness.silence("a")
    renamed(harness, "a")
    assert harness.state(uuid) == "active/powering-off on z"
    harness.conductor.action_succeeded(CTX, instance_uuid=uuid, action_id=action_id, host="z", power_state=4)
    assert harness.state(uuid) == "stopped/None on z"


def test_an_evacuation_waits_for_it(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    fence(harness, "a")
    harness.scheduler.order = ["b", "c"]
    evacuate(harness, uuid)
    harness.settle()
    harness.claim("b", uuid, attempt=2)
    harness.silence("b")
    renamed(harness, "b")
    task = harness.task(uuid)
    assert task is not None
    assert (task.host, task.attempt) == ("z", 2)


def test_a_reading_is_no_proof_of_a_fence(harness: ConductorHarness) -> None:
    """An operator may end it meanwhile. What was removed is fenced all the same."""
    reading = HostLiveness(known=frozenset({"a", "b"}), fenced=frozenset({"b"}))
    with harness.db.read() as session:
        assert [is_fenced(session, host, reading) for host in ("a", "b", "c", "gone", None)] == [
            *(False, False, False),
            *(True, True),
        ]
    fence(harness, "c")
    with harness.db.read() as session:
        assert is_fenced(session, "c", reading)
