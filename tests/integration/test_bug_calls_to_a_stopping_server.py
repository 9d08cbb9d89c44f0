"""Calls and casts that reached a server while it stopped were lost: oslo.messaging acknowledged them, and no server worked on them.

The broker goes on sending until the connection is closed, which waits for the messages that are worked on.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from minova.context import RequestContext
from minova.contracts.base import call, cast, contract
from minova.messaging.dispatch import Implementation
from minova.messaging.rpc import Rpc
from tests.cluster import configure
from tests.waiting import wait_for

CTX = RequestContext(request_id="req-1")
NUMBERS = range(12)


@contract
class Counting:
    """A contract."""

    TOPIC = "counting"
    VERSION = "1.0"

    @call
    def twice(self, ctx: RequestContext, number: int) -> int:
        raise NotImplementedError

    @cast
    def note(self, ctx: RequestContext, number: int) -> None:
        raise NotImplementedError

    @call
    def wait(self, ctx: RequestContext) -> str:
        raise NotImplementedError


class Counter:
    def __init__(self, name: str) -> None:
        self.name = name
        self.noted: list[int] = []
        self.waiting, self.go_on = threading.Event(), threading.Event()

    def twice(self, ctx: RequestContext, number: int) -> int:
        return 2 * number

    def note(self, ctx: RequestContext, number: int) -> None:
        self.noted.append(number)

    def wait(self, ctx: RequestContext) -> str:
        self.waiting.set()
        self.go_on.wait(60)
        return self.name


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(len(NUMBERS) + 2) as pool:
        yield pool


def test_another_server_gets_what_the_broker_sends_to_one_that_stops(
    tmp_path: Path, fresh_rabbit_url: Callable[[], str], threads: ThreadPoolExecutor
) -> None:
    url = fresh_rabbit_url()
    rpcs = [Rpc(configure(tmp_path / name), url) for name in "abc"]
    first, second = Counter("first"), Counter("second")
    stopping = rpcs[0].server(Counting, Implementation(parts=(first,)), host="a")
    staying = rpcs[1].server(Counting, Implementation(parts=(second,)), host="b")
    client: Any = rpcs[2].client(Counting, timeout=20)
    stopping.start()
    try:
        # What it works on when it stops is finished and answered.
        busy = threads.submit(client.wait, CTX)
        assert first.waiting.wait(30)
        staying.start()
        stopping.stop()
        answers = [threads.submit(client.twice, CTX, number=number) for number in NUMBERS]
        for number in NUMBERS:
            client.note(CTX, number=number)
        first.go_on.set()
        assert busy.result(60) == "first"
        stopping.wait()
        assert [answer.result(60) for answer in answers] == [2 * number for number in NUMBERS]
        wait_for("every message", lambda: sorted([*first.noted, *second.noted]) == [*NUMBERS])
    finally:
        staying.stop()
        staying.wait()
        for each in rpcs:
            each.close()
