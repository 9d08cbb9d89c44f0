"""Calls of the API about services."""

from typing import Protocol

from minova.context import RequestContext
from minova.contracts.base import call
from minova.contracts.conductor.audiences import BY_API
from minova.objects.hosts.cloud import WitnessRecord
from minova.objects.hosts.service import Service


@BY_API
class ServiceSettingsApi(Protocol):
    @call
    def update_service(
        self,
        ctx: RequestContext,
        *,
        service_uuid: str,
        disabled: bool | None = None,
        disabled_reason: str | None = None,
        forced_down: bool | None = None,
    ) -> Service:
        """`None` leaves a field unchanged. Enabling clears the reason."""
        ...

    @call(since="1.6")
    def delete_service(self, ctx: RequestContext, *, service_uuid: str) -> None:
        """Delete a service; for a compute also its nodes, providers and memberships of aggregates. A process that still
        runs registers again.

        Raises NotFound if there is no such service, Conflict if its host has instances, migrations in progress or
        builds.
        """
        ...


@BY_API
class SeenByApisApi(Protocol):
    @call(since="1.7", in_safe_mode=True)
    def api_has_seen(self, ctx: RequestContext, *, place: str, seen: WitnessRecord) -> None:
        """An API, at this place, has seen more of its cloud than the database now shows. Idempotent."""
        ...
