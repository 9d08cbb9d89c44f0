"""Sends notifications through oslo.messaging, from a thread with a bounded queue, so that the caller never waits.

By default no driver is configured. Then no notification is made, read or kept.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, NamedTuple

import msgspec
from oslo_config import cfg
from oslo_context import context as oslo_context

from minova import errors
from minova.concurrency import threads
from minova.context import RequestContext

threads.use_native()

import oslo_messaging  # noqa: E402

LOG = logging.getLogger(__name__)

# Nova's exchange, on which consumers of notifications listen.
EXCHANGE = "nova"
# Seconds in which the rest of the queue is sent when the service stops.
STOP_GRACE = 5.0
# Seconds between two log lines about dropped notifications.
WARN_INTERVAL = 60.0

oslo_messaging.set_transport_defaults(EXCHANGE)


class Notice(NamedTuple):
    """One notification.

    `priority`: info or error.
    `versioned`: a notification of Nova's versioned kind, which has topics of its own.
    """

    ctx: RequestContext
    publisher_id: str
    event_type: str
    payload: Mapping[str, Any]
    priority: str = "info"
    versioned: bool = False


class _Serializer(oslo_messaging.NoOpSerializer):  # type: ignore[misc]
    """As in Nova, the context is a dict with OpenStack's names, without any secret."""

    def serialize_context(self, ctxt: Any) -> Any:
        return {**ctxt.to_dict(), "user_id": ctxt.user_id, "tenant": ctxt.project_id}


class Notifier:
    """Sends with the drivers in `[oslo_messaging_notifications] driver`.

    Raises InvalidConfiguration if there is no such driver, or if its transport_url is invalid.
    """

    def __init__(self, conf: cfg.ConfigOpts, *, clock: Callable[[], float] = time.monotonic) -> None:
        try:
            self._transport = oslo_messaging.get_notification_transport(conf)
        except (oslo_messaging.DriverLoadFailure, oslo_messaging.InvalidTransportURL, ValueError) as error:
            raise errors.InvalidConfiguration(
                "[oslo_messaging_notifications] transport_url is not a URL such as rabbit://user:password@host:5672/"
            ) from error
        self.enabled = bool(_checked(conf.oslo_messaging_notifications.driver) - {"noop"})
        self.unversioned = self.enabled and conf.notifications.notification_format != "versioned"
        self.versioned = self.enabled and conf.notifications.notification_format != "unversioned"
        self.dropped = 0
        self._warned = (0, float("-inf"))
        self._clock = clock
        self._waiting: queue.Queue[Notice | None] = queue.Queue(conf.notifications.queue_size)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        if not self.enabled:
            self._transport.cleanup()
        else:
            self._sender = self._sender_to(None)
            self._versioned_sender = self._sender_to(conf.notifications.versioned_notifications_topics)

    def send(self, *notices: Notice) -> None:
        """Queue the notices and return at once. If the queue is full, they are dropped, and the log reports that from
        time to time.
        """
        if not self.enabled or not notices:
            return
        self._begin()
        for notice in notices:
            try:
                self._waiting.put_nowait(notice)
            except queue.Full:
                self._drop()

    def stop(self) -> None:
        """Send the queued notices, unless that takes too long."""
        if not self.enabled:
            return
        if self._thread is not None:
            try:
                self._waiting.put(None, timeout=STOP_GRACE)
            except queue.Full:
                LOG.warning("%d notifications were not sent", self._waiting.qsize())
                return
            self._thread.join(STOP_GRACE)
            if self._thread.is_alive():
                LOG.warning("%d notifications were not sent", self._waiting.qsize())
                return
        self._transport.cleanup()

    def _sender_to(self, topics: Sequence[str] | None) -> Any:
        """`topics` None: those of [oslo_messaging_notifications] topics."""
        return oslo_messaging.Notifier(self._transport, publisher_id="minova", serializer=_Serializer(), topics=topics)

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="notifications", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while (notice := self._waiting.get()) is not None:
            try:
                kind = self._versioned_sender if notice.versioned else self._sender
                sender = kind.prepare(publisher_id=notice.publisher_id)
                send = sender.error if notice.priority == "error" else sender.info
                send(_context(notice.ctx), notice.event_type, msgspec.to_builtins(notice.payload))
            except Exception:
                LOG.exception("Notification %s could not be sent", notice.event_type)

    def _drop(self) -> None:
        with self._lock:
            self.dropped += 1
            before, at = self._warned
            if self._clock() - at < WARN_INTERVAL:
                return
            LOG.warning("%d notifications were dropped: the broker does not take them", self.dropped - before)
            self._warned = (self.dropped, self._clock())


def _checked(drivers: Iterable[str]) -> set[str]:
    """Raises InvalidConfiguration for an unknown driver name, because oslo.messaging would only log a warning."""
    driver_names = entry_points(group="oslo.messaging.notify.drivers").names
    for name in drivers:
        if name not in driver_names:
            raise errors.InvalidConfiguration(
                f"[oslo_messaging_notifications] driver: unknown name {name!r}; known are {', '.join(sorted(driver_names))}."
            )
    return {*drivers}


def _context(ctx: RequestContext) -> oslo_context.RequestContext:
    """Returns the only kind of context that oslo.messaging sends."""
    return oslo_context.RequestContext(
        request_id=ctx.request_id, user_id=ctx.user_id or None, project_id=ctx.project_id or None, overwrite=False
    )
