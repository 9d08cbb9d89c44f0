"""Calls whose answers went with a restarted broker waited for their whole time-out."""

import contextlib
import json
import queue
import time
import types
from collections.abc import Iterator
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_messaging._drivers import amqpdriver, impl_rabbit

from minova import errors
from minova.messaging import rpc
from minova.messaging.reconnects import IncomingMessage, Reconnects


class Connection:
    """What oslo.messaging's connection for answers has: a channel, which is another one after a reconnection."""

    def __init__(self) -> None:
        self.channel: Any = "first"
        self.declared: list[Any] = []

    def _set_current_channel(self, channel: Any) -> None:
        self.channel = channel
        self.declared.append(channel)


class Waiter:
    def __init__(self) -> None:
        self.conn = self
        self.connection = Connection()
        self.waiters = amqpdriver.ReplyWaiters()
        self.msg_id_cache = None


class Driver:
    _waiter: Any = None


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_waiting_calls_end_when_the_connection_is_made_anew(driver: Driver) -> None:
    told: list[float] = []
    watcher = Reconnects(driver)
    watcher.on_reconnect(lambda: told.append(time.monotonic()))
    watcher.watch()
    driver._waiter = waiter = Waiter()
    for _ in range(3):
        watcher.watch()
    waiter.waiters.add("call")
    connection = waiter.connection
    connection._set_current_channel("first")
    with pytest.raises(queue.Empty):
        waiter.waiters._queues["call"].get_nowait()
    connection._set_current_channel(None)
    assert told == []
    connection._set_current_channel("second")
    assert len(told) == 1
    assert connection.declared == ["first", None, "second"], "the queue for answers is there before calls are repeated"
    answer = waiter.waiters._queues["call"].get_nowait()
    error = amqpdriver.rpc_common.deserialize_remote_exception(answer["failure"], [errors.__name__])
    ours = rpc._as_ours(error)
    assert type(ours) is errors.NoAnswer
    assert "broke before the answer came" in str(ours)
    assert answer["ending"]


def test_other_buses_have_no_such_connection() -> None:
    Reconnects(object()).watch()


def test_a_broker_is_looked_for_often_and_an_answer_without_a_queue_is_soon_given_up() -> None:
    conf = cfg.ConfigOpts()
    conf.register_opts(impl_rabbit.rabbit_opts, group="oslo_messaging_rabbit")
    conf([], default_config_files=[])
    options = conf.oslo_messaging_rabbit
    pause = options.kombu_reconnect_delay * 2 + options.kombu_reconnect_splay + options.rabbit_interval_max
    assert pause < 2.0
    assert options.rabbit_retry_backoff == 0
    assert pause < options.kombu_missing_consumer_retry_timeout < 5


class Broker:
    """A driver and its connection: answers to a queue that is not in `queues` are undeliverable."""

    missing_destination_retry_timeout = 0.0

    def __init__(self) -> None:
        self.queues: set[str] = set()
        self.delivered: list[Any] = []
        self.tried = 0

    @contextlib.contextmanager
    def _get_connection(self, purpose: str) -> Iterator["Broker"]:
        yield self

    def direct_send(self, reply_queue: str, message: dict[str, Any]) -> None:
        self.tried += 1
        if reply_queue not in self.queues:
            raise oslo_messaging.MessageUndeliverable(None, "", reply_queue, None)
        self.delivered.append(json.loads(message["oslo.message"])["result"])


def test_a_queue_that_was_missing_gets_the_answers_to_later_calls() -> None:
    assert amqpdriver.RpcAMQPListener.message_cls is IncomingMessage
    broker = Broker()
    listener = types.SimpleNamespace(driver=broker)
    missing = amqpdriver.ObsoleteReplyQueuesCache()

    def answer(words: str) -> None:
        IncomingMessage(listener, {}, None, "unique", "call", "reply_1", None, missing, None).reply(words)

    answer("lost")
    answer("lost, too")
    assert (broker.tried, broker.delivered) == (2, []), "a caller that is gone costs one try, and no waiting"
    broker.queues.add("reply_1")
    answer("the first after the queue was made anew")
    answer("the second")
    assert broker.delivered == ["the first after the queue was made anew", "the second"]
