"""The bus of minova-standalone: a message wakes its receiver, and no thread polls."""

import threading
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from kombu import connection as kombu

from minova.messaging import memory_bus

# kombu tells only some of its types.
Connection: Any = kombu.Connection


@pytest.fixture
def connection() -> Iterator[Any]:
    memory_bus.use()
    with Connection("memory://") as connection:
        assert isinstance(connection.transport, memory_bus.MemoryTransport)
        yield connection


def consumer_of(connection: Any, queue: str, got: list[object]) -> None:
    def take(body: object, message: Any) -> None:
        got.append(body)
        message.ack()

    connection.Consumer(queues=[connection.SimpleQueue(queue).queue], callbacks=[take]).consume()


def test_who_waits_is_woken_by_a_message(connection: Any) -> None:
    name, got = str(uuid4()), []  # type: tuple[str, list[object]]
    consumer_of(connection, name, got)
    waiting = threading.Thread(target=connection.drain_events, kwargs={"timeout": 60})
    waiting.start()
    with Connection("memory://") as other:
        other.SimpleQueue(name).put("hello")
    waiting.join(30)
    assert got == ["hello"]


def test_a_message_that_came_before_is_not_waited_for(connection: Any) -> None:
    name, got = str(uuid4()), []  # type: tuple[str, list[object]]
    connection.SimpleQueue(name).put("early")
    consumer_of(connection, name, got)
    connection.drain_events(timeout=30)
    assert got == ["early"]


def test_while_nothing_comes_nothing_is_asked(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer_of(connection, str(uuid4()), [])
    transport = connection.transport
    calls: list[float] = []
    get = transport.cycle.get

    def counted(*arguments: object, **named: object) -> object:
        calls.append(time.monotonic())
        return get(*arguments, **named)

    monkeypatch.setattr(transport.cycle, "get", counted)
    with pytest.raises(TimeoutError):
        connection.drain_events(timeout=0.3)
    assert len(calls) == 1
