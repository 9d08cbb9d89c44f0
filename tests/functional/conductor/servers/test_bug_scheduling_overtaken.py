"""An asking of the scheduler that was overtaken by a newer one of the same tasks."""

from minova import errors
from minova.conductor.hosts.service_removal import remove_node
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, request


def ask_again(harness: ConductorHarness, uuid: str) -> None:
    """As if it were unknown that the first request is still under way."""
    task = harness.task(uuid)
    assert task is not None
    harness.conductor.collaborators.servers.builds.reschedule(CTX, task.reservation_id, {uuid: task.epoch})


def test_the_answer_to_an_older_asking_is_void(harness: ConductorHarness) -> None:
    """Its allocation is gone: the newer asking has moved it, although its own answer was lost."""
    (uuid,) = harness.conductor.create_servers(CTX, request=request()).instance_uuids

    def overtaken() -> None:
        harness.scheduler.before_answer = lambda: None
        harness.scheduler.order, harness.scheduler.lose_answer = ["b"], True
        ask_again(harness, uuid)
        harness.scheduler.lose_answer = False

    harness.scheduler.before_answer = overtaken
    harness.settle()
    built_on = {host.name for host in harness.hosts.values() if host.builds}
    assert built_on <= {*harness.allocated().values()}
    harness.tick(harness.conductor, 5)
    assert [host.name for host in harness.hosts.values() if host.builds] == [harness.allocated()[uuid]]


def test_what_an_older_asking_claimed_takes_no_room_from_the_newer(harness: ConductorHarness) -> None:
    """There is room for one, and it is this one's own."""
    harness.scheduler.lose_answer = True
    (uuid,) = harness.create()
    assert harness.allocated() == {uuid: "a"}
    harness.scheduler.lose_answer = False
    free: list[int] = []
    harness.scheduler.before_claim = lambda: free.append(4 - harness.used("a")["VCPU"])
    harness.tick(harness.conductor, 5)
    assert free == [4]
    assert harness.allocated() == {uuid: "a"}


def test_numbers_that_were_used_up_meanwhile_do_not_hold_it_up(harness: ConductorHarness) -> None:
    """A node that vanishes gives back what it held, which counts as a claim; the next asking must come after it."""
    harness.scheduler.lose_answer = True
    (uuid,) = harness.create()
    # As a conductor of 0.1.0 does; this release refuses while something is allocated there.
    with harness.db.write() as session:
        remove_node(session, "a", "a-node", harness.db.now())
    harness.scheduler.lose_answer, harness.scheduler.order = False, ["b"]
    harness.tick(harness.conductor, 5)
    assert harness.allocated() == {uuid: "b"}


def test_an_older_asking_that_fails_ends_nothing(harness: ConductorHarness) -> None:
    (uuid,) = harness.conductor.create_servers(CTX, request=request()).instance_uuids

    def overtaken() -> None:
        harness.scheduler.before_answer = lambda: None
        harness.scheduler.mood = errors.ServiceUnavailable("No answer in time")
        ask_again(harness, uuid)
        harness.scheduler.mood = None
        raise RuntimeError("a filter broke")

    harness.scheduler.before_answer = overtaken
    harness.settle()
    harness.tick(harness.conductor, 5)
    assert [build.instance.uuid for build in harness.hosts["a"].builds] == [uuid]
