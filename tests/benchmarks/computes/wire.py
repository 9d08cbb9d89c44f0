"""A conductor's client for very many computes in one process: oslo.messaging's messages on the wire, without its client.

What a conductor gets and answers is byte for byte of the kind that a compute's oslo.messaging sends; but that one's client costs as
much CPU for a call as the conductor does, and ten thousand computes have ten thousand machines for it, the benchmark has one.
"""

import json
import threading
import uuid
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

import kombu
import msgspec
from oslo_messaging._drivers import amqp, common

from minova.context import RequestContext
from minova.contracts.base import methods_of
from minova.contracts.conductor import ConductorApi
from minova.errors import MinovaError
from minova.messaging.broker_users import EXCHANGE

TIMEOUT = 60.0


class Wire:
    """Stands for a `ConductorApi`; safe for threads. MinovaError: the conductor answers with an error; TimeoutError: not at all."""

    def __init__(self, url: str) -> None:
        self._methods = methods_of(ConductorApi)
        self._reply_q = f"reply_{uuid.uuid4().hex}"
        self._waiting: dict[str, Future[Any]] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        # kombu has no types.
        amqp_client: Any = kombu
        url = url.replace("rabbit://", "amqp://", 1)
        self._sending, self._listening = amqp_client.Connection(url), amqp_client.Connection(url)
        self._exchange = amqp_client.Exchange(EXCHANGE, "topic", durable=False)
        self._producer = self._sending.Producer(serializer="json", auto_declare=False)
        queue = amqp_client.Queue(self._reply_q, exclusive=True, auto_delete=True, durable=False)
        self._consumer = self._listening.Consumer([queue], callbacks=[self._answered], no_ack=True)
        self._consumer.consume()
        self._thread = threading.Thread(target=self._listen, name="answers")
        self._thread.start()

    def __getattr__(self, name: str) -> Any:
        method = self._methods[name]
        return lambda ctx, **arguments: method.answer.from_builtins(self._call(name, ctx, arguments))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join()
        self._sending.release()
        self._listening.release()

    def _call(self, name: str, ctx: RequestContext, arguments: dict[str, Any]) -> Any:
        number, answer = uuid.uuid4().hex, Future[Any]()
        message: dict[str, Any] = {
            "method": name,
            "args": {key: msgspec.to_builtins(value) for key, value in arguments.items()},
            "version": ConductorApi.VERSION,
            "_msg_id": number,
            "_reply_q": self._reply_q,
            "_timeout": None,
        }
        amqp._add_unique_id(message)
        amqp.pack_context(message, msgspec.to_builtins(ctx))
        self._waiting[number] = answer
        try:
            body = common.serialize_msg(message)
            with self._lock:
                self._producer.publish(body, exchange=self._exchange, routing_key=ConductorApi.TOPIC)
            return answer.result(TIMEOUT)
        finally:
            del self._waiting[number]

    def _listen(self) -> None:
        while not self._stopping.is_set():
            try:
                self._listening.drain_events(timeout=0.5)
            except TimeoutError:
                continue

    def _answered(self, body: Any, _message: Any) -> None:
        message = json.loads(body["oslo.message"])
        waiting = self._waiting.get(message["_msg_id"])
        if waiting is None or not message["ending"]:
            return
        if message["failure"]:
            waiting.set_exception(MinovaError(json.loads(message["failure"])["message"]))
        else:
            waiting.set_result(message["result"])
