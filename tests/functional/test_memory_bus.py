"""The bus of minova-standalone: a message wakes who waits for it, and nobody asks in vain."""

import threading
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
from kombu import Connection

from minova import memory_bus


@pytest.fixture
def connection() -> Iterator[Connection]:
    memory_bus.use()
    with Connection("memory://") as made:
        assert isinstance(made.transport, memory_bus.Transport)
        yield made


def consumer_of(connection: Connection, queue: str, got: list[object]) -> None:
    consumer = connection.Consumer(
        queues=[connection.SimpleQueue(queue).queue],
        callbacks=[lambda body, message: (got.append(body), message.ack())],
    )
    consumer.consume()


def test_who_waits_is_woken_by_a_message(connection: Connection) -> None:
    name, got = str(uuid4()), []  # type: tuple[str, list[object]]
    consumer_of(connection, name, got)
    waiting = threading.Thread(target=connection.drain_events, kwargs={"timeout": 60})
    waiting.start()
    with Connection("memory://") as other:
        other.SimpleQueue(name).put("hello")
    waiting.join(30)
    assert got == ["hello"]


def test_a_message_that_came_before_is_not_waited_for(connection: Connection) -> None:
    name, got = str(uuid4()), []  # type: tuple[str, list[object]]
    connection.SimpleQueue(name).put("early")
    consumer_of(connection, name, got)
    connection.drain_events(timeout=30)
    assert got == ["early"]


def test_while_nothing_comes_nothing_is_asked(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer_of(connection, str(uuid4()), [])
    transport = connection.transport
    asked: list[float] = []
    get = transport.cycle.get

    def counted(*arguments: object, **named: object) -> object:
        asked.append(time.monotonic())
        return get(*arguments, **named)

    monkeypatch.setattr(transport.cycle, "get", counted)
    with pytest.raises(TimeoutError):
        connection.drain_events(timeout=0.3)
    assert len(asked) == 1
