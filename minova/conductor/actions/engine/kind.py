"""The hooks of the kinds of actions. The engine calls them; each family of kinds in `conductor/actions/kinds/` overrides
those that it needs. The defaults do nothing.

    request   parse -> starts_elsewhere -> preflight -> [ require -> queue -> co_ending_actions -> prepare ]  -> host
    the host begins (`refused_at_begin`)              [ require ]
    the guest is about to be changed (`changes_at`)   [ changes ]
    success   [ succeeded -> `EveryKind` -> follower ]
    failure   [ failed -> undo -> follower ]
    ended by another action, a deletion or an administrator   [ undo ]

What stands in brackets runs in one transaction.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.codecs import Decoder
from minova.conductor.actions.engine.in_progress import Ending, LockedAction
from minova.conductor.actions.engine.payload import ActionPayload, QueuedAction
from minova.context import RequestContext
from minova.db.models import Task
from minova.db.servers import actions
from minova.db.servers.instances import LockedInstance
from minova.objects.actions.action import ServerAction
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.servers.failures import Failure
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import TaskState, VmState
from minova.races import Races

S = TypeVar("S", bound=msgspec.Struct)
_HOST_ARGUMENTS = Decoder(HostArguments)


class ActionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A requested action.

    `arguments`: what the `parse` of its kind has returned.
    `absent_hosts`: hosts that cannot be asked now.
    `action_id`: the action's record, if there is one already.
    `co_ending_actions`, `queued`: see `ActionPayload`.
    """

    ctx: RequestContext
    action: ServerAction
    instance_uuid: str
    arguments: Any = HostArguments()
    absent_hosts: Collection[str] = ()
    override_lock: bool = False
    action_id: int | None = None
    co_ending_actions: tuple[int, ...] = ()
    queued: tuple[QueuedAction, ...] = ()

    @property
    def begun(self) -> actions.ActionKey:
        """The key of the action's record."""
        return actions.ActionKey(self.instance_uuid, self.ctx.request_id, self.action.name)

    def record(self, at: datetime) -> dict[str, Any]:
        """Returns the row of the action's record."""
        return {
            "instance_uuid": self.instance_uuid,
            "action": self.action.name,
            "request_id": self.ctx.request_id,
            "user_id": self.ctx.user_id,
            "project_id": self.ctx.project_id,
            "start_time": at,
        }


class ActionKind:
    """`takes_quota`: `prepare` may raise OverQuota. Such an action begins in a transaction of its own.
    `races`: which of its transactions are repeated, because another one was first.
    `refused_at_begin`: `require` is asked again when the host begins the action, and when it is about to change the guest. If it
    refuses, the action ends with this kind of failure. Empty: it is not asked.
    """

    takes_quota = False
    refused_at_begin = ""
    races: Races = ()

    def parse(self, arguments: Mapping[str, Any]) -> Any:
        """Returns the arguments of the request. Raises BadRequest if they are invalid."""
        return parsed(_HOST_ARGUMENTS, arguments)

    def starts_elsewhere(self, request: ActionRequest) -> bool:
        """Returns whether the request was accepted as other work than an action on the server's host."""
        return False

    def preflight(self, request: ActionRequest) -> Callable[[], None] | None:
        """Returns a check that must not run inside a transaction, such as a call to the scheduler; None: there is none.
        The state of the server is checked before it.
        """
        return None

    def require(self, session: Session, instance: LockedInstance) -> None:
        """Raises Conflict if something other than the state of the instance does not allow the action."""

    def queue(self, session: Session, request: ActionRequest, task: Task) -> bool:
        """Returns whether the action was queued after the one in progress. Idempotent."""
        return False

    def co_ending_actions(self, task: Task) -> tuple[int, ...]:
        """Returns the records of the action in progress, which this one ends, whose result is this one's result."""
        return ()

    def prepare(self, session: Session, instance: LockedInstance, request: ActionRequest) -> ActionPayload:
        """Writes what the action takes and changes at once. Returns what its task keeps and its host gets. Raises
        OverQuota.
        """
        return ActionPayload(arguments=request.arguments)

    def instance_for_host(self, session: Session, instance: Instance, arguments: HostArguments) -> Instance:
        """Returns the instance as its host gets it."""
        return instance

    def changes(self, session: Session, locked: LockedAction) -> None:
        """The host is about to change the guest. Once for each action whose entry has `changes_at`."""

    def succeeded(self, session: Session, locked: LockedAction, after: VmState) -> dict[str, Any]:
        """Keeps or releases what the action holds beside its task. Returns further columns of the instance, which
        change with its state.
        """
        return {}

    def failed(self, session: Session, locked: LockedAction, failure: Failure, *, untouched: bool) -> None:
        """Releases what only a failure releases. `untouched`: nothing has happened to the guest."""

    def undo(self, session: Session, task: Task, task_state: TaskState | None, *, kept_disks: bool = False) -> None:
        """Restores what `prepare` has changed. The task ends without success, in this task state of its instance. `kept_disks`: its host
        says that the guest still has the disks of before.
        """

    def follower(self, session: Session, locked: LockedAction, failure: Failure | None) -> ActionRequest | None:
        """Returns the action to begin in the transaction in which this one ends. `failure` None: it has succeeded."""
        return None


class EveryKind:
    """What a family does after the success of an action of any kind, such as to release what it held for the server."""

    def succeeded(self, session: Session, ending: Ending) -> dict[str, Any]:
        """Returns further columns of the instance, which change with its state."""
        return {}

    def ended(self, session: Session, endings: Sequence[Ending]) -> None:
        """The instances have their new states."""


def parsed(decoder: Decoder[S], arguments: Mapping[str, Any]) -> S:
    """Raises BadRequest if the arguments are invalid."""
    try:
        return decoder.from_builtins(dict(arguments))
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Invalid arguments of an action: {error}") from None
