"""A flood of one host's messages keeps no thread from the messages of others."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from minova.messaging import rpc_listener
from minova.messaging.rpc_listener import share_threads
from tests.waiting import wait_for

THREADS = 4


class Server:
    """What is used of oslo.messaging's server. Messages of `rogue` are held until `go_on` is set."""

    def __init__(self) -> None:
        self.conf = SimpleNamespace(executor_thread_pool_size=THREADS)
        self._work_executor = ThreadPoolExecutor(THREADS)
        self.go_on = threading.Event()
        self.begun: list[Any] = []

    def _on_incoming(self, incoming: Any) -> None:
        self._work_executor.submit(self._process_incoming, incoming)

    def _process_incoming(self, incoming: Any) -> None:
        self.begun.append(incoming[0].number)
        if incoming[0].ctxt["sender"] == "compute.rogue":
            self.go_on.wait(60)

    def gets(self, sender: str | None, number: object) -> None:
        self._on_incoming([SimpleNamespace(ctxt={"sender": sender}, number=number)])


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    share_threads(server)
    yield server
    server.go_on.set()
    server._work_executor.shutdown()


def test_bug_flood_of_one_host_holds_all_threads(server: Server) -> None:
    for number in range(100):
        server.gets("compute.rogue", number)
    for sender in ("compute.victim", "api.controller", "conductor.controller", None):
        server.gets(sender, sender or "unknown")
    wait_for("the others", lambda: len(server.begun) == THREADS // 2 + 4, 30)
    assert {each for each in server.begun if isinstance(each, int)} == {0, 1}
    server.go_on.set()
    wait_for("the line", lambda: len(server.begun) == 104, 30)
    assert sorted(each for each in server.begun if isinstance(each, int)) == list(range(100))


def test_controllers_and_unknown_senders_have_all_threads(server: Server) -> None:
    server.go_on.clear()
    held = threading.Barrier(THREADS + 1)
    server._process_incoming = lambda incoming: held.wait(30)  # type: ignore[method-assign, assignment]
    share_threads(server)
    for _ in range(THREADS):
        server.gets("api.controller", 0)
    held.wait(30)


def test_what_waits_is_done_at_the_stop(server: Server) -> None:
    for number in range(20):
        server.gets("compute.rogue", number)
    wait_for("the first ones", lambda: len(server.begun) == 2, 30)
    threading.Timer(0.2, server.go_on.set).start()
    server._work_executor.shutdown()
    assert sorted(server.begun) == list(range(20))


def test_line_has_an_end(server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc_listener, "MOST_WAITING", 3)
    share_threads(server)
    for number in range(10):
        server.gets("compute.rogue", number)
    server.go_on.set()
    wait_for("the line", lambda: len(server.begun) == 5, 30)
    server._work_executor.shutdown()
    assert sorted(server.begun) == [0, 1, 2, 3, 4]
    assert len([each for each in caplog.messages if "floods" in each]) == 1
