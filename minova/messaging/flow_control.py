"""The broker's flow control. While RabbitMQ is short of memory or disk it reads nothing more from a connection that has begun
to publish, and reports that on the connection (`connection.blocked`).

What a blocked connection has sent waits in the broker's socket, and is delivered after the alarm, even if the connection
was closed meanwhile. So here

- nothing is sent while the broker is known to be blocked: the sender gets `ConnectionBlocked`, and no message exists;
- a connection with `holds_back` sends the body of a message only after the broker has shown that it has read the message's
  header and goes on reading. The broker blocks after a header, and a message without a body is never delivered;
- a message that was sent, but is not confirmed within CONFIRM_GRACE of a block, is `InDoubt`.

See docs/decisions/0053.
"""

import contextlib
import logging
import struct
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import amqp.exceptions
from amqp import method_framing, serialization, spec
from kombu.transport import pyamqp

from minova.concurrency import threads

threads.use_native()

from oslo_messaging._drivers import common as driver_common  # noqa: E402

LOG = logging.getLogger(__name__)
# Seconds for the confirmation of a message that the broker may have read before it blocked the connection.
CONFIRM_GRACE = 1.0
# Seconds between two looks whether the connection was blocked, while a sender waits for the broker.
LOOK = 0.25
# Seconds after which the thread that waits for the end of an alarm sends and expects heartbeats.
TICK = 1.0
# A frame: type, channel, size of its payload; then the payload and one more octet.
_FRAME_HEAD = struct.Struct(">BHI")
_FRAME_END = 1
_METHOD_FRAME = 1


class _Undelivered(driver_common.Timeout):  # type: ignore[misc]
    """oslo.messaging neither retries nor logs a Timeout."""

    msg_fmt = "%(info)s"


class ConnectionBlocked(_Undelivered):
    """The message was not sent. With `holds_back` it will never be delivered."""


class InDoubt(_Undelivered):
    """The message was sent to a broker that has blocked the connection. It may be delivered after the alarm."""


class FlowControl:
    """Whether a broker is blocked, for all connections of this process to it. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None
        self._listeners: list[Callable[[bool], None]] = []

    @property
    def is_blocked(self) -> bool:
        return self._since is not None

    def on_change(self, listener: Callable[[bool], None]) -> None:
        """Call `listener` with True when the broker blocks, and with False when it takes messages again. The listener must
        not wait.
        """
        self._listeners.append(listener)

    def require_open(self) -> None:
        """Raises ConnectionBlocked while the broker is blocked."""
        if self.is_blocked:
            raise ConnectionBlocked("the broker is blocked by an alarm of its memory or disk")

    def blocked(self, connection: Any) -> None:
        """Takes over a connection that the broker has blocked, and closes it. The first one is kept until the broker reports the end
        of the alarm on it.
        """
        with self._lock:
            first = self._since is None
            if first:
                self._since = time.monotonic()
        if not first:
            connection.collect()
            return
        LOG.warning(
            "The message broker takes no messages: its memory or disk is short (an alarm; see the broker's log)"
        )
        threading.Thread(target=self._watch, args=(connection,), name="broker alarm", daemon=True).start()
        self._tell(True)

    def _watch(self, connection: Any) -> None:
        try:
            _await_unblocked(connection)
        except Exception as error:  # noqa: BLE001  - the next message finds out whether the alarm is over
            LOG.debug("The connection that waited for the end of the alarm broke: %s", error)
        with contextlib.suppress(Exception):
            connection.collect()
        with self._lock:
            since, self._since = self._since or time.monotonic(), None
        LOG.warning("The message broker takes messages again after %.1f s", time.monotonic() - since)
        self._tell(False)

    def _tell(self, blocked: bool) -> None:
        for listener in self._listeners:
            try:
                listener(blocked)
            except Exception:
                LOG.exception("Work that follows an alarm of the broker failed")


@cache
def of(url: str) -> FlowControl:
    """Returns the state that all connections to this URL share."""
    return FlowControl()


def _await_unblocked(connection: Any) -> None:
    """Raises an error if the connection breaks. While a connection is blocked the broker reads no heartbeats, but it sends its
    own.
    """
    while connection.is_blocked:
        with contextlib.suppress(TimeoutError):
            connection.drain_events(timeout=TICK)
        connection.heartbeat_tick()


class ConfirmChannel(pyamqp.Channel):
    """A channel in confirm mode, as oslo.messaging's all are.

    `holds_back`: see the module. It costs one more round trip for each message.
    """

    holds_back = False
    connection: Any
    _confirm_selected: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._probe: Any = None
        # The messages sent in confirm mode, and the number up to which the broker has confirmed them.
        self._sent = self._known = 0

    def basic_publish_confirm(self, *args: Any, **kwargs: Any) -> Any:
        """Raises ConnectionBlocked or InDoubt, after which the connection must be given to `FlowControl.blocked`; MessageNacked."""
        kwargs.pop("confirm_timeout", None)
        if not self._confirm_selected:
            self._confirm_selected = True
            self.confirm_select()
        if self.holds_back and self._probe is None:
            self._probe = self.connection.channel()
        sent = self._basic_publish(*args, **kwargs)
        self._sent += 1
        self._await_confirmation()
        return sent

    def send_method(self, sig: Any, format: Any = None, args: Any = None, content: Any = None, **more: Any) -> Any:
        if sig != spec.Basic.Publish:
            return super().send_method(sig, format, args, content, **more)
        if self.connection.is_blocked:
            raise ConnectionBlocked("the broker has blocked this connection")
        if not self.holds_back:
            return super().send_method(sig, format, args, content, **more)
        head, body = self.connection.framed(self.channel_id, sig, serialization.dumps(format, args), content)
        self.connection.transport.write(head)
        self._require_reading()
        self.connection.transport.write(body)
        return None

    def _require_reading(self) -> None:
        """Returns when the broker has read all that this connection has sent. Raises ConnectionBlocked if it has blocked the connection,
        TimeoutError.
        """
        self._probe.send_method(spec.Channel.Flow, "b", (True,))
        begun = time.monotonic()
        while not self._answered(self._probe, [spec.Channel.FlowOk]):
            if self.connection.is_blocked:
                raise ConnectionBlocked("the broker has blocked this connection")
            self._require_time(begun)

    def _await_confirmation(self) -> None:
        """Raises InDoubt, TimeoutError, MessageNacked."""
        begun, blocked_at = time.monotonic(), None
        while self._known < self._sent:
            if self._answered(self, [spec.Basic.Ack, spec.Basic.Nack], self._confirmed):
                continue
            if not self.connection.is_blocked:
                self._require_time(begun)
                continue
            blocked_at = blocked_at or time.monotonic()
            if time.monotonic() - blocked_at > CONFIRM_GRACE:
                raise InDoubt("the broker has blocked this connection before it confirmed a message")

    def _confirmed(self, method: Any, number: int, *_: Any) -> None:
        self._known = max(self._known, number)
        if method == spec.Basic.Nack and number == self._sent:
            raise amqp.exceptions.MessageNacked

    def _require_time(self, begun: float) -> None:
        """Raises TimeoutError if more time than the socket's time-out has passed, which oslo.messaging sets to that of the call."""
        limit = self.connection.sock.gettimeout()
        if limit is not None and time.monotonic() - begun > limit:
            raise TimeoutError("the broker does not answer")

    @staticmethod
    def _answered(channel: Any, methods: list[Any], callback: Any = None) -> bool:
        """Waits a moment. Returns whether one of these methods has arrived."""
        try:
            channel.wait(methods, callback=callback, timeout=LOOK)
        except TimeoutError:
            return False
        return True


class _Frames:
    """A buffer that takes the frames of a writer in place of a socket."""

    def __init__(self) -> None:
        self._octets = bytearray()

    def write(self, octets: Any) -> None:
        self._octets += octets

    def taken(self) -> tuple[bytes, bytes]:
        """Returns what was written since the last call, divided after the method's and the content header's frame."""
        end = 0
        for _ in range(2):
            *_, size = _FRAME_HEAD.unpack_from(self._octets, end)
            end += _FRAME_HEAD.size + size + _FRAME_END
        head, body = bytes(self._octets[:end]), bytes(self._octets[end:])
        self._octets.clear()
        return head, body


class AmqpConnection(pyamqp.Connection):
    """`is_blocked`: whether the broker has blocked this connection."""

    Channel = ConfirmChannel

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_blocked = False
        self._frames = _Frames()
        self._framing: Any = None

    def framed(self, *message: Any) -> tuple[bytes, bytes]:
        """Returns the frames of a message: those up to its body, and those of its body."""
        if self._framing is None:  # not before the broker has told the largest size of a frame
            self._framing = method_framing.frame_writer(self, self._frames)
        self._framing(_METHOD_FRAME, *message)
        return self._frames.taken()

    def _on_blocked(self) -> None:
        self.is_blocked = True

    def _on_unblocked(self) -> None:
        self.is_blocked = False
