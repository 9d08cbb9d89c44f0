"""A restored database gave the number of an action that had begun here to another one: the note of the first counted for the second. Its disks
counted as replaced, and a request to cancel it was answered with "it has begun". Of two servers with such actions, one lost its note.
"""

import threading
from pathlib import Path

import pytest

from minova.compute.actions.results import Result, UnreportedResults
from minova.context import RequestContext, service_context
from minova.objects.actions.action import ServerAction
from minova.objects.actions.power import REBOOT_HARD
from minova.objects.actions.power import STOP as STOP_SERVER
from minova.objects.servers.states import PowerState
from tests.fakes.action_arguments import host_arguments
from tests.fakes.computes import Compute

BEFORE, AFTER = service_context("req-before"), service_context("req-after")
REBUILD, STOP = "rebuild", "stop"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "actions"


def test_note_counts_for_its_request_alone(folder: Path) -> None:
    noted = UnreportedResults(folder)
    noted.begin("i", 7, "req-before", REBUILD)
    noted.replaces("i")
    later = UnreportedResults(folder)
    assert later.has_begun("i", 7, "req-before")
    assert later.has_replaced("i", 7, "req-before")
    assert not later.has_begun("i", 7, "req-after")
    assert not later.has_replaced("i", 7, "req-after")
    assert later.begun_kind("i", 7, "req-after") is None


def test_same_action_of_another_request_begins_anew(folder: Path) -> None:
    noted = UnreportedResults(folder)
    noted.begin("i", 7, "req-before", REBUILD)
    noted.replaces("i")
    later = UnreportedResults(folder)
    later.begin("i", 7, "req-after", REBUILD)
    for results in (later, UnreportedResults(folder)):
        assert results.begun_kind("i", 7, "req-after") == REBUILD
        assert not results.has_replaced("i", 7, "req-after")


def test_two_servers_have_actions_of_one_number(folder: Path) -> None:
    noted = UnreportedResults(folder)
    noted.begin("i", 7, "req-before", REBUILD)
    noted.begin("j", 7, "req-after", STOP)
    noted.forget("j")
    assert UnreportedResults(folder).begun_kind("i", 7, "req-before") == REBUILD


def test_two_servers_have_results_of_one_number(folder: Path) -> None:
    noted = UnreportedResults(folder)
    for uuid in ("i", "j"):
        noted.keep(Result(instance_uuid=uuid, action_id=7, power_state=1, request_id=f"req-{uuid}"))
    noted.forget("j")
    later = UnreportedResults(folder)
    assert later.has("i")
    assert not later.has("j")


def test_files_of_an_earlier_release_count(folder: Path) -> None:
    folder.mkdir()
    (folder / "7.begun").write_text(f"i {REBUILD}")
    (folder / "8.json").write_text('{"instance_uuid": "j", "action_id": 8, "power_state": 1}')
    noted = UnreportedResults(folder)
    assert noted.has_replaced("i", 7, "req-any")
    assert noted.of("j", 8, "req-any") is not None
    noted.begin("i", 7, "req-any", REBUILD)
    assert noted.has_replaced("i", 7, "req-any")
    noted.forget("i")
    noted.forget("j")
    assert not [*folder.iterdir()]


# -- in one process ----------------------------------------------------------------------------------------------------


@pytest.fixture
def compute() -> Compute:
    service = Compute().start()
    for uuid in ("i", "j"):
        service.boot(uuid)
    return service


def send(compute: Compute, uuid: str, action: ServerAction, ctx: RequestContext) -> None:
    instance = compute.conductor.commit_action(uuid, action, 7)
    compute.manager.run_action(ctx, instance, 7, action.kind, host_arguments(action))


@pytest.mark.parametrize("uuid", ["i", "j"])
def test_bug_refusal_counted_for_a_later_action_of_the_number(compute: Compute, uuid: str) -> None:
    compute.conductor.commit_action("i", STOP_SERVER, 7)
    compute.manager.cancel_action(BEFORE, instance_uuid="i", action_id=7)
    compute.run()
    assert len(compute.conductor.action_failures) == 1
    send(compute, uuid, STOP_SERVER, AFTER)
    compute.run()
    assert len(compute.conductor.action_failures) == 1
    assert compute.domains()[uuid] is PowerState.SHUTDOWN


def test_bug_cancellation_met_the_progress_of_another_request(compute: Compute) -> None:
    answers: list[list[str]] = []

    def cancel_meanwhile(cancelled: threading.Event) -> None:
        progressed = len(compute.conductor.progressed)
        compute.manager.cancel_action(AFTER, instance_uuid="i", action_id=7)
        compute.queue.pop()()
        answers.append(compute.conductor.progressed[progressed:])

    compute.hypervisor.waits_for_guest = cancel_meanwhile
    send(compute, "i", STOP_SERVER, BEFORE)
    compute.run()
    assert answers == [[]]
    assert compute.conductor.action_failures == [("i", 7, "it did not begin within 600 s")]


def test_bug_request_was_dropped_while_another_of_its_number_ran(compute: Compute) -> None:
    """A hard reboot, which ends other actions, let the older one wait for its guest."""
    ended: list[bool] = []

    def send_meanwhile(cancelled: threading.Event) -> None:
        send(compute, "i", REBOOT_HARD, AFTER)
        ended.append(cancelled.is_set())

    compute.hypervisor.waits_for_guest = send_meanwhile
    send(compute, "i", STOP_SERVER, BEFORE)
    compute.run()
    assert ended == [True]
    assert "hard_reboot" in compute.hypervisor.calls


def test_bug_cancellation_of_another_server_was_dropped(compute: Compute) -> None:
    for uuid in ("i", "j"):
        compute.conductor.commit_action(uuid, STOP_SERVER, 7)
        compute.manager.cancel_action(AFTER, instance_uuid=uuid, action_id=7)
    compute.run()
    assert [failed[:2] for failed in compute.conductor.action_failures] == [("i", 7), ("j", 7)]
