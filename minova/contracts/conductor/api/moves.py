"""Calls of the API about moves: where one would take a server, and what users want of one in progress."""

from typing import Any, Protocol

from minova.context import RequestContext
from minova.contracts.base import call
from minova.contracts.conductor.audiences import BY_API
from minova.objects.requests.diagnosis import ScheduleAnswer


@BY_API
class MoveOrdersApi(Protocol):
    @call(since="1.9")
    def cancel_move(
        self, ctx: RequestContext, *, instance_uuid: str, migration_uuid: str, override_lock: bool = False
    ) -> None:
        """Take a move back, or abort a live migration. Returns before that is done. Idempotent.

        Raises Conflict if the server is locked, no such move is in progress, or the server belongs to its destination already.
        """
        ...

    @call(since="1.9")
    def force_complete_migration(
        self, ctx: RequestContext, *, instance_uuid: str, migration_uuid: str, override_lock: bool = False
    ) -> None:
        """Let a live migration end soon, although its guest changes memory faster than it is copied. Idempotent.

        Raises Conflict if the server is locked, or its guest does not migrate now.
        """
        ...


@BY_API
class MovePreviewsApi(Protocol):
    @call(since="1.9", in_safe_mode=True)
    def preview_move(
        self,
        ctx: RequestContext,
        *,
        instance_uuid: str,
        action: str,
        arguments: dict[str, Any],
        override_lock: bool = False,
    ) -> ScheduleAnswer:
        """Returns where this action, with the arguments of `start_action`, would take the server now; writes nothing.

        Raises as `start_action` if the server's state, a task in progress or a quota does not allow it.
        """
        ...
