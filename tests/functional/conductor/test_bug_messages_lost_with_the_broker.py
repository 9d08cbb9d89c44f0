"""A message to a compute that could not be sent, or that a restarted broker lost, waited for the compute's audit: a minute."""

from pathlib import Path

import pytest

from minova.conductor.compute_messages import FIRST_PAUSE, LONGEST_PAUSE, Unsent
from tests.functional.conductor.desk import Desk
from tests.tables import make_tables


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    make_tables(url)
    return Desk(url)


def builds(desk: Desk, host: str = "a") -> list[str]:
    return [build.instance.uuid for build in desk.hosts[host].builds]


def test_a_build_that_could_not_be_sent_is_sent_again_soon(desk: Desk) -> None:
    desk.hosts["a"].deaf = True
    (uuid,) = desk.create()
    desk.hosts["a"].deaf = False
    desk.conductor.collaborators.reconcile._computes.unsent._ticks = lambda: float("inf")
    desk.tick(desk.conductor)
    assert builds(desk) == [uuid]
    desk.tick(desk.conductor)
    assert builds(desk) == [uuid], "once"


def test_a_deletion_that_could_not_be_sent_is_sent_again_soon(desk: Desk) -> None:
    uuid = desk.active()
    desk.hosts["a"].deaf = True
    desk.delete(uuid)
    desk.hosts["a"].deaf = False
    desk.conductor.collaborators.reconcile._computes.unsent._ticks = lambda: float("inf")
    desk.tick(desk.conductor)
    assert desk.hosts["a"].terminated == [uuid]


def test_after_a_restart_of_the_broker_what_no_host_has_taken_up_is_sent_again(desk: Desk) -> None:
    claimed, lost, deleted = desk.create()[0], desk.create()[0], desk.active()
    desk.claim("a", claimed)
    desk.delete(deleted)
    desk.hosts["a"].builds.clear()
    desk.hosts["a"].terminated.clear()
    desk.tick(desk.conductor)
    assert (builds(desk), desk.hosts["a"].terminated) == ([], [])
    desk.conductor.broker_is_back()
    desk.tick(desk.conductor)
    assert (builds(desk), desk.hosts["a"].terminated) == ([lost], [deleted])
    desk.tick(desk.conductor)
    assert (builds(desk), desk.hosts["a"].terminated) == ([lost], [deleted]), "once"


def test_pauses_grow_and_end_with_a_message_that_was_sent() -> None:
    now = [0.0]
    unsent = Unsent(lambda: now[0])
    pauses = []
    for _ in range(8):
        unsent.failed("i")
        begun = now[0]
        while not unsent.due():
            now[0] += 0.5
        pauses.append(now[0] - begun)
    assert pauses == [FIRST_PAUSE, 2.0, 4.0, 8.0, 16.0, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE]
    unsent.failed("i")
    unsent.sent("i")
    now[0] += 100.0
    assert unsent.due() == frozenset()
    unsent.failed("i")
    now[0] += FIRST_PAUSE
    assert unsent.due() == {"i"}
