"""scheduler.select_destinations.start and .end. As in Nova, a request without a host has no .end."""

from collections.abc import Sequence

from minova.context import RequestContext
from minova.messaging.notifier import Notice, Notifier
from minova.objects.requests.legacy_spec import legacy_request_spec
from minova.objects.requests.request_spec import RequestSpec
from minova.objects.requests.versioned_payloads import request_spec


class SchedulerNotifications:
    def __init__(self, notifier: Notifier | None, *, host: str) -> None:
        self._notifier = notifier if notifier is not None and notifier.enabled else None
        self._host = host

    def select_destinations(
        self, ctx: RequestContext, spec: RequestSpec, instance_uuids: Sequence[str], phase: str
    ) -> None:
        if self._notifier is None:
            return
        event_type = f"scheduler.select_destinations.{phase}"
        if self._notifier.unversioned:
            payload = {"request_spec": legacy_request_spec(spec)}
            self._notifier.send(Notice(ctx, f"scheduler.{self._host}", event_type, payload))
        if self._notifier.versioned:
            payload = request_spec(spec, instance_uuids[0])
            self._notifier.send(Notice(ctx, f"nova-scheduler:{self._host}", event_type, payload, versioned=True))
