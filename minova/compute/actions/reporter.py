"""What this host tells conductors of server actions. Each report names the request of its action: after a restore of the database the
number of an action can be another one's.

During an upgrade, what a conductor does not know yet is left out.
"""

from collections.abc import Callable, Mapping
from typing import Any

from minova import errors
from minova.compute.actions.results import Result
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi


class ActionReporter:
    """Each method raises as the conductor's of the same name."""

    def __init__(self, host: str, conductor: ConductorApi) -> None:
        self._host = host
        self._conductor = conductor

    def begin(self, ctx: RequestContext, instance_uuid: str, action_id: int, *, again: bool = False) -> None:
        action_key = self._named(instance_uuid, action_id)
        self._send(self._conductor.begin_action, ctx, {**action_key, "again": again})

    def progressed(self, ctx: RequestContext, instance_uuid: str, action_id: int, task_state: str) -> None:
        action_key = self._named(instance_uuid, action_id)
        self._send(self._conductor.action_progressed, ctx, {**action_key, "task_state": task_state})

    def succeeded(self, ctx: RequestContext, result: Result, power_state: int) -> None:
        action_key = self._named(result.instance_uuid, result.action_id)
        self._send(
            self._conductor.action_succeeded,
            ctx,
            {**action_key, "power_state": power_state, "kept": result.kept},
            {"forced": result.forced, "hardware": result.hardware},
        )

    def failed(self, ctx: RequestContext, result: Result, reason: str) -> None:
        action_key = self._named(result.instance_uuid, result.action_id)
        self._send(
            self._conductor.action_failed,
            ctx,
            {
                **action_key,
                "reason": reason,
                "kind": result.kind,
                "power_state": result.power_state,
                "untouched": result.untouched,
            },
            {"agent_reason": result.agent_reason, "kept_disks": result.kept_disks},
        )

    def _named(self, instance_uuid: str, action_id: int) -> dict[str, Any]:
        return {"instance_uuid": instance_uuid, "action_id": action_id, "host": self._host}

    @staticmethod
    def _send(
        method: Callable[..., None],
        ctx: RequestContext,
        arguments: Mapping[str, Any],
        newer: Mapping[str, Any] | None = None,
    ) -> None:
        """`newer`: arguments that conductors of release 0.1.0 do not know. What they bring, an audit records later."""
        try:
            method(ctx, **arguments, **(newer or {}), request_id=ctx.request_id)
        except errors.PeerTooOld:
            method(ctx, **arguments)
