"""An asking of the scheduler that was overtaken by a newer one of the same tasks."""

from minova import errors
from minova.conductor.hosts.service_removal import remove_node
from tests.functional.conductor.desk import CTX, Desk, request


def ask_again(desk: Desk, uuid: str) -> None:
    """As if nobody knew that the first asking is still under way."""
    task = desk.task(uuid)
    assert task is not None
    desk.conductor.collaborators.builds.reschedule(CTX, task.reservation_id, {uuid: task.epoch})


def test_the_answer_to_an_older_asking_is_void(desk: Desk) -> None:
    """Its allocation is gone: the newer asking has moved it, although its own answer was lost."""
    (uuid,) = desk.conductor.create_servers(CTX, request=request()).instance_uuids

    def overtaken() -> None:
        desk.scheduler.before_answer = lambda: None
        desk.scheduler.order, desk.scheduler.lose_answer = ["b"], True
        ask_again(desk, uuid)
        desk.scheduler.lose_answer = False

    desk.scheduler.before_answer = overtaken
    desk.settle()
    built_on = {host.name for host in desk.hosts.values() if host.builds}
    assert built_on <= {*desk.allocated().values()}
    desk.tick(desk.conductor, 5)
    assert [host.name for host in desk.hosts.values() if host.builds] == [desk.allocated()[uuid]]


def test_what_an_older_asking_claimed_takes_no_room_from_the_newer(desk: Desk) -> None:
    """There is room for one, and it is this one's own."""
    desk.scheduler.lose_answer = True
    (uuid,) = desk.create()
    assert desk.allocated() == {uuid: "a"}
    desk.scheduler.lose_answer = False
    free: list[int] = []
    desk.scheduler.before_claim = lambda: free.append(4 - desk.used("a")["VCPU"])
    desk.tick(desk.conductor, 5)
    assert free == [4]
    assert desk.allocated() == {uuid: "a"}


def test_numbers_that_were_used_up_meanwhile_do_not_hold_it_up(desk: Desk) -> None:
    """A node that vanishes gives back what it held, which counts as a claim; the next asking must come after it."""
    desk.scheduler.lose_answer = True
    (uuid,) = desk.create()
    # As a conductor of 0.1.0 does; this release refuses while something is allocated there.
    with desk.db.write() as session:
        remove_node(session, "a", "a-node", desk.db.now())
    desk.scheduler.lose_answer, desk.scheduler.order = False, ["b"]
    desk.tick(desk.conductor, 5)
    assert desk.allocated() == {uuid: "b"}


def test_an_older_asking_that_fails_ends_nothing(desk: Desk) -> None:
    (uuid,) = desk.conductor.create_servers(CTX, request=request()).instance_uuids

    def overtaken() -> None:
        desk.scheduler.before_answer = lambda: None
        desk.scheduler.mood = errors.ServiceUnavailable("No answer in time")
        ask_again(desk, uuid)
        desk.scheduler.mood = None
        raise RuntimeError("a filter broke")

    desk.scheduler.before_answer = overtaken
    desk.settle()
    desk.tick(desk.conductor, 5)
    assert [build.instance.uuid for build in desk.hosts["a"].builds] == [uuid]
