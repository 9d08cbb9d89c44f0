"""scheduler.select_destinations.start and .end. As in Nova, a request without a host has no .end."""

from minova.context import RequestContext
from minova.notifier import Notice, Notifier
from minova.objects.legacy_spec import legacy_request_spec
from minova.objects.request_spec import RequestSpec


class Notifications:
    def __init__(self, notifier: Notifier | None, *, host: str) -> None:
        self._notifier = notifier if notifier is not None and notifier.enabled else None
        self._publisher = f"scheduler.{host}"

    def select_destinations(self, ctx: RequestContext, spec: RequestSpec, phase: str) -> None:
        if self._notifier is not None:
            payload = {"request_spec": legacy_request_spec(spec)}
            self._notifier.send(Notice(ctx, self._publisher, f"scheduler.select_destinations.{phase}", payload))
