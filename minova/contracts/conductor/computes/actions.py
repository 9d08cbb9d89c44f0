"""Calls of computes about server actions."""

from typing import Protocol

from minova.context import RequestContext
from minova.contracts.base import call
from minova.contracts.conductor.audiences import BY_COMPUTES
from minova.objects.hosts.bounds import Count, Line, PowerNumber, Reason
from minova.objects.servers.chosen_hardware import ChosenHardware


@BY_COMPUTES
class ActionReportsApi(Protocol):
    """`request_id`: of the request of the action, as the host got it. A restored database gives the number of an action to another one,
    and a report on an action of another request is stale. Empty: the host's release does not say it.
    """

    @call(since="1.7", added={"request_id": "1.9"})
    def begin_action(
        self,
        ctx: RequestContext,
        *,
        instance_uuid: Line,
        action_id: Count,
        host: Line,
        again: bool = False,
        request_id: Line = "",
    ) -> None:
        """Checks that this action is still in progress on this host.

        `again`: the host is in the middle of the action, before a step that changes the guest.

        Raises StaleAttempt if it is not. The host must then leave the instance alone.
        """
        ...

    @call(since="1.7", added={"request_id": "1.9"})
    def action_progressed(
        self,
        ctx: RequestContext,
        *,
        instance_uuid: Line,
        action_id: Count,
        host: Line,
        task_state: Line,
        request_id: Line = "",
    ) -> None:
        """The action is in progress and has reached this task state; empty: the state has not changed. Its time limit starts
        anew. Idempotent. Raises StaleAttempt as `begin_action` does.
        """
        ...

    @call(since="1.7", added={"forced": "1.9", "hardware": "1.9", "request_id": "1.9"})
    def action_succeeded(
        self,
        ctx: RequestContext,
        *,
        instance_uuid: Line,
        action_id: Count,
        host: Line,
        power_state: PowerNumber,
        kept: bool = False,
        forced: bool = False,
        hardware: ChosenHardware | None = None,
        request_id: Line = "",
    ) -> None:
        """The host has done the action. Idempotent; a stale report is ignored.

        `kept`: the guest already was as the action wants it, and was left alone.
        `forced`: the guest was asked to shut itself down, did not do it in time, and was forced.
        `hardware`: what the action has chosen for the guest. Recorded if nothing is recorded then.
        """
        ...

    @call(since="1.7", added={"agent_reason": "1.9", "kept_disks": "1.9", "request_id": "1.9"})
    def action_failed(
        self,
        ctx: RequestContext,
        *,
        instance_uuid: Line,
        action_id: Count,
        host: Line,
        reason: Reason,
        kind: Line = "",
        power_state: PowerNumber | None = None,
        untouched: bool = False,
        agent_reason: Line = "",
        kept_disks: bool = False,
        request_id: Line = "",
    ) -> None:
        """The host could not do the action. Idempotent; a stale report is ignored.

        `power_state`: the guest's state, if it is known.
        `untouched`: nothing has happened to the guest.
        `agent_reason`: why the agent in the guest has refused, in its own words, which users see.
        `kept_disks`: the whole action has replaced no disk, TPM or firmware variables of the guest.
        """
        ...
