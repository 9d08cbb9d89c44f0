"""Interfaces that servers get and lose. A detachment that is requested during another attachment or detachment follows
it: until then it only has its record.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.codecs import Decoder
from minova.conductor.actions.engine.in_progress import Ending, LockedAction, context_of, locked_instance
from minova.conductor.actions.engine.kind import ActionKind, ActionRequest, EveryKind, parsed
from minova.conductor.actions.engine.payload import ActionPayload, QueuedAction, payload_of
from minova.conductor.actions.engine.requests import ServerActions
from minova.conductor.network.attachments import Attachments
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.api.networks import DeletePortsApi
from minova.contracts.conductor.computes.interfaces import DetachedInterfacesApi
from minova.db.models import Task
from minova.db.networks import vifs
from minova.db.servers import actions, tasks
from minova.db.servers.instances import LockedInstance
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.actions.interfaces import ATTACH_INTERFACE, DETACH_INTERFACE
from minova.objects.requests.build_extras import NewInterface
from minova.objects.servers.failures import Failure
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import VmState

T = TypeVar("T")
# The kind of failure of an action that its host has cancelled, because it did not begin in time.
CANCELLED = "HostTooSlow"
_KINDS = frozenset({ATTACH_INTERFACE.kind, DETACH_INTERFACE.kind})


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    interface: NewInterface


class Detachment(msgspec.Struct, frozen=True, kw_only=True):
    """`for_good`: the port is to be deleted. `revision`: that it must have then; None: any."""

    port_id: str
    for_good: bool = False
    revision: int | None = None


_ATTACHMENT, _DETACHMENT = Decoder(Attachment), Decoder(Detachment)


class InterfaceKind(ActionKind):
    def __init__(self, worker: TaskWorker, attachments: Attachments) -> None:
        self._worker = worker
        self._attachments = attachments

    def follower(self, session: Session, locked: LockedAction, failure: Failure | None) -> ActionRequest | None:
        """The first queued detachment whose port the instance still has. The others wait for that one."""
        queued, uuid = locked.payload.queued, locked.instance.uuid
        for number, first in enumerate(queued):
            if self._attachments.has(session, uuid, first.port_id):
                return ActionRequest(
                    ctx=context_of(session, first.action_id),
                    action=DETACH_INTERFACE,
                    instance_uuid=uuid,
                    arguments=Detachment(port_id=first.port_id),
                    action_id=first.action_id,
                    queued=queued[number + 1 :],
                )
            actions.end(session, [first.action_id], self._worker.at())
        return None


class Attach(InterfaceKind):
    takes_quota = True

    def __init__(self, worker: TaskWorker, attachments: Attachments) -> None:
        super().__init__(worker, attachments)
        self.races = attachments.races

    def parse(self, arguments: Mapping[str, Any]) -> Attachment:
        return parsed(_ATTACHMENT, arguments)

    def prepare(self, session: Session, instance: LockedInstance, request: ActionRequest) -> ActionPayload:
        port_id = self._attachments.attach(session, instance, request.arguments.interface)
        return ActionPayload(arguments=HostArguments(port_id=port_id))

    def failed(self, session: Session, locked: LockedAction, failure: Failure, *, untouched: bool) -> None:
        """Otherwise the guest may have the interface, so its addresses stay taken. A host that refreshes its interfaces
        may have attached it although the action has not begun.
        """
        if untouched and failure.kind != CANCELLED:
            self._attachments.release(session, locked.instance.uuid, locked.payload.arguments.port_id)


class Detach(InterfaceKind):
    def parse(self, arguments: Mapping[str, Any]) -> Detachment:
        return parsed(_DETACHMENT, arguments)

    def queue(self, session: Session, request: ActionRequest, task: Task) -> bool:
        """As in Nova, several detachments may be requested at the same time; they are done one after the other."""
        if task.kind not in _KINDS:
            return False
        self._queue_detachment(session, request, task)
        return True

    def _queue_detachment(self, session: Session, request: ActionRequest, task: Task) -> None:
        port_id, payload = self._detached(session, request), payload_of(task)
        is_detached = task.kind == DETACH_INTERFACE.kind and payload.arguments.port_id == port_id
        if is_detached or port_id in {queued.port_id for queued in payload.queued}:
            return
        action_id = actions.begin(session, [request.record(self._worker.at())])[request.instance_uuid]
        queued = (*payload.queued, QueuedAction(port_id=port_id, action_id=action_id))
        tasks.set_payload(session, task, msgspec.to_builtins(msgspec.structs.replace(payload, queued=queued)))

    def prepare(self, session: Session, instance: LockedInstance, request: ActionRequest) -> ActionPayload:
        return ActionPayload(arguments=HostArguments(port_id=self._detached(session, request)))

    def instance_for_host(self, session: Session, instance: Instance, arguments: HostArguments) -> Instance:
        """Adds the interface that is to be detached, even if its port is marked for deletion."""
        shown_ports = {vif.port_id for vif in instance.network_info}
        every = vifs.of_instances(session, [instance.uuid], rules=True, pending_delete=True).get(instance.uuid, ())
        more = tuple(vif for vif in every if vif.port_id == arguments.port_id and vif.port_id not in shown_ports)
        return msgspec.structs.replace(instance, network_info=(*instance.network_info, *more))

    def succeeded(self, session: Session, locked: LockedAction, after: VmState) -> dict[str, Any]:
        self._attachments.release(session, locked.instance.uuid, locked.payload.arguments.port_id)
        return {}

    def _detached(self, session: Session, request: ActionRequest) -> str:
        """Returns the id of the port; a port to be deleted is marked for deletion. Raises PortNotFound if the server
        does not have it.
        """
        detachment: Detachment = request.arguments
        if detachment.for_good:
            self._attachments.delete(session, request.instance_uuid, detachment.port_id, detachment.revision)
        else:
            self._attachments.require(session, request.instance_uuid, detachment.port_id)
        return detachment.port_id


class PendingInterfaces(EveryKind):
    """Releases the ports that were to be deleted: a domain that is defined anew does not have their interfaces."""

    def __init__(self, attachments: Attachments) -> None:
        self._attachments = attachments

    def ended(self, session: Session, endings: Sequence[Ending]) -> None:
        for ending in endings:
            if ending.locked.action.redefines_domain and not ending.kept:
                self._attachments.release_pending_delete(session, ending.locked.instance.uuid)


class ServerInterfaces(DeletePortsApi, DetachedInterfacesApi):
    """Ports of servers that are deleted, and reports of hosts on them."""

    def __init__(self, worker: TaskWorker, attachments: Attachments, actions: ServerActions) -> None:
        self._worker = worker
        self._attachments = attachments
        self._actions = actions

    def delete_port(self, ctx: RequestContext, port_id: str, revision: int | None = None) -> None:
        """A server that has the port loses its interface first; until then the port is marked for deletion, and users
        no longer see it. As in Neutron, a lock of the server does not prevent it. Idempotent.

        Raises PortInUse if the state of the server does not allow that now, PortNotFound if there is no such port,
        PreconditionFailed if the port has another revision.
        """
        instance_uuid = self._attachments.delete_free_port(port_id, revision)
        if instance_uuid is None or self._worker.run(
            lambda session: self._delete_without_host(session, instance_uuid, port_id, revision)
        ):
            return
        arguments = {"port_id": port_id, "for_good": True, "revision": revision}
        try:
            self._actions.start_action(ctx, instance_uuid, DETACH_INTERFACE.kind, arguments, override_lock=True)
        except errors.PortNotFound:
            raise
        except (errors.Conflict, errors.NotFound) as error:
            raise errors.PortInUse(
                f"Port {port_id} is in use by a server, and cannot be detached now: {error}"
            ) from None

    def interface_detached(self, ctx: RequestContext, instance_uuid: str, mac_address: str, host: str) -> None:
        """A report of another host changes nothing."""

        def work(session: Session) -> None:
            instance = locked_instance(session, instance_uuid)
            if instance is not None and not instance.deleted and instance.host == host:
                self._attachments.release_pending_delete(session, instance_uuid, mac_address)

        self._worker.run(work)

    def _delete_without_host(self, session: Session, instance_uuid: str, port_id: str, revision: int | None) -> bool:
        """Returns whether nothing else is to be done, because the server has no host."""
        instance = locked_instance(session, instance_uuid)
        task = tasks.lock(session, [instance_uuid]).get(instance_uuid)
        if task is None and (instance is None or instance.host is None):
            self._attachments.delete(session, instance_uuid, port_id, revision)
            self._attachments.release_pending_delete(session, instance_uuid)
            return True
        return False


def kinds(worker: TaskWorker, attachments: Attachments) -> dict[str, ActionKind]:
    return {
        ATTACH_INTERFACE.kind: Attach(worker, attachments),
        DETACH_INTERFACE.kind: Detach(worker, attachments),
    }
