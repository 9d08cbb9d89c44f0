"""Bug: a conductor read its hosts twice for one decision. A host that became silent between the two readings was in neither
of them, so it counted as removed and its action failed.
"""

from tests.functional.conductor.conductor_harness import CTX, ConductorHarness


def test_an_action_waits_for_a_host_that_becomes_silent_while_it_is_looked_at(harness: ConductorHarness) -> None:
    uuid = harness.active()
    action_id = harness.act(uuid, "stop")
    actions = harness.conductor.collaborators.actions
    liveness = actions._liveness
    for _ in range(5):
        harness.now += 10
        harness.beat("b", "c")
    task = harness.task(uuid)
    assert task is not None
    assert "a" in liveness.present_hosts()
    # The first look takes what was read just now. Meanwhile "a" becomes silent, and a second look would read that.
    looks = iter([harness.now])
    liveness._clock = lambda: next(looks, harness.now)
    for _ in range(4):
        harness.now += 10
        for host in ("b", "c"):
            harness.conductor.heartbeat(CTX, host=host, binary="minova-compute")
        harness.conductor.collaborators.services.flush()
    actions.resume(CTX, uuid, action_id, task.epoch)
    assert harness.state(uuid) == "active/powering-off on a"
    assert harness.actions(uuid)[-1] == ("stop", None)
    assert "a" in liveness.absent_hosts()
