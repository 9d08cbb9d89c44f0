"""The life of a service: the order of its start and stop, and periodic tasks that survive their errors."""

import logging
import threading
from collections.abc import Sequence

import pytest

from minova import errors, service
from minova.backoff import Backoff
from minova.service import PeriodicTask, RpcService, run, run_periodic, until_available


class Book:
    """A manager, a server and a service that note what is asked of them."""

    def __init__(self, fails: str = "", error: Exception | None = None) -> None:
        self.notes: list[str] = []
        self._fails = fails
        self._error = error or RuntimeError("no")

    def note(self, what: str) -> None:
        self.notes.append(what)
        if what == self._fails:
            raise self._error

    def init_host(self) -> None:
        self.note("init_host")

    def pre_start_hook(self) -> None:
        self.note("pre_start_hook")

    def post_start_hook(self) -> None:
        self.note("post_start_hook")

    def periodic_tasks(self) -> Sequence[PeriodicTask]:
        self.note("periodic_tasks")
        return ()

    def start(self) -> None:
        self.note("listen")

    def stop(self) -> None:
        self.note("stop")

    def wait(self) -> None:
        self.note("wait")


class Part:
    """Something that `run` starts and stops."""

    def __init__(self, binary: str, notes: list[str], fails: str = "", error: Exception | None = None) -> None:
        self.binary = binary
        self._notes = notes
        self._fails = fails
        self._error = error or RuntimeError("no")

    def start(self) -> None:
        self._note("start")

    def stop(self) -> None:
        self._note("stop")

    def _note(self, what: str) -> None:
        self._notes.append(f"{what} {self.binary}")
        if what == self._fails:
            raise self._error


def test_a_service_listens_only_when_its_host_is_ready() -> None:
    book = Book()
    service = RpcService("minova-test", book, lambda: book, threading.Event())
    service.start()
    assert book.notes == ["init_host", "pre_start_hook", "listen", "post_start_hook", "periodic_tasks"]


def test_a_service_stops_listening_before_its_work_ends() -> None:
    book, work = Book(), Book()
    service = RpcService("minova-test", work, lambda: book, threading.Event())
    service.start()
    service.stop()
    assert book.notes == ["listen", "stop", "wait"]
    assert work.notes[-1] == "stop"


def test_a_service_that_never_listened_can_be_stopped() -> None:
    book = Book(fails="init_host")
    service = RpcService("minova-test", book, lambda: book, threading.Event())
    with pytest.raises(RuntimeError):
        service.start()
    service.stop()
    assert book.notes == ["init_host", "stop"]


def test_all_start_in_order_and_stop_in_reverse() -> None:
    notes: list[str] = []
    stopping = threading.Event()
    run([Part("a", notes), Part("b", notes)], stopping, stopping.set)
    assert notes == ["start a", "start b", "stop b", "stop a"]


def test_a_start_that_fails_stops_what_has_started() -> None:
    notes: list[str] = []
    parts = [Part("a", notes), Part("b", notes, "start", errors.InvalidConfiguration("x")), Part("c", notes)]
    with pytest.raises(errors.InvalidConfiguration):
        run(parts, threading.Event())
    assert notes == ["start a", "start b", "stop b", "stop a"]


def test_one_that_fails_to_stop_does_not_keep_the_others_from_it() -> None:
    notes: list[str] = []
    stopping = threading.Event()
    run([Part("a", notes), Part("b", notes, "stop")], stopping, stopping.set)
    assert notes[-2:] == ["stop b", "stop a"]


def test_stopped_while_it_waits_for_a_peer_it_ends_without_an_error() -> None:
    stopping = threading.Event()
    stopping.set()
    run([Part("a", [], "start", errors.ServiceUnavailable("stopped while waiting"))], stopping)


@pytest.mark.parametrize("error", [RuntimeError("broken"), errors.ServiceUnavailable("away")])
def test_an_error_of_a_periodic_task_is_not_its_last_run(error: Exception) -> None:
    stopping = threading.Event()
    runs: list[int] = []

    def work() -> None:
        runs.append(1)
        if len(runs) == 3:
            stopping.set()
        raise error

    run_periodic(PeriodicTask(name="t", interval=0.001, work=work, at_once=True), stopping)
    assert len(runs) == 3


def test_a_periodic_task_says_how_long_to_wait_from_now_on() -> None:
    stopping = threading.Event()
    runs: list[int] = []

    def work() -> float:
        runs.append(1)
        if len(runs) == 2:
            stopping.set()
        return 0.001

    run_periodic(PeriodicTask(name="t", interval=3600, work=work, at_once=True), stopping)
    assert len(runs) == 2


def test_bug_waiting_for_a_peer_was_a_line_for_each_try(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its start a service logged every ten seconds that the database does not answer."""
    monkeypatch.setattr(service, "BACKOFF", Backoff(first=0.0, longest=0.0))
    failures = ["no answer from port 1", "no answer from port 2", "certificate has expired", "no answer from port 3"]

    def ask() -> str:
        if failures:
            raise errors.ServiceUnavailable(failures.pop(0))
        return "answer"

    with caplog.at_level(logging.INFO):
        assert until_available("conductor", ask, threading.Event()) == "answer"
    first, second, last = (record.getMessage() for record in caplog.records)
    assert first == "conductor: no answer from port 1; trying again until it works"
    assert second == "conductor: certificate has expired; trying again until it works"
    assert last.startswith("conductor: works after 0.")


def test_waiting_for_a_peer_ends_when_the_service_stops() -> None:
    stopping = threading.Event()
    stopping.set()

    def ask() -> str:
        raise errors.ServiceUnavailable("no answer")

    with pytest.raises(errors.ServiceUnavailable, match="stopped while waiting"):
        until_available("conductor", ask, stopping)


class Recorded(threading.Event):
    """No thread waits, and what was to be waited is kept; set after so many waits."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.waits: list[float] = []
        self._times = times

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        return len(self.waits) > self._times


@pytest.mark.parametrize("error", [RuntimeError("broken"), errors.ServiceUnavailable("away")])
def test_after_an_error_a_periodic_task_is_tried_again_by_its_own_interval(error: Exception) -> None:
    stopping = Recorded(4)
    answers: list[float | Exception] = [30.0, error, error, 30.0]

    def work() -> float:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    run_periodic(PeriodicTask(name="t", interval=10, work=work), stopping)
    assert [round(wait / 10 + 0.049) for wait in stopping.waits] == [1, 3, 1, 1, 3]
