"""Messages to computes. Each is only a hint about a row that is already written, so a lost message costs nothing but
time.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.backoff import Backoff
from minova.codecs import Decoder
from minova.context import RequestContext
from minova.contracts.compute import ComputeApi
from minova.db.catalogue import aggregates
from minova.db.models import Task
from minova.db.servers import instances, request_specs
from minova.db.servers.request_specs import StoredRequest
from minova.db.sql import chunked
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.network.vif import GroupMembers
from minova.objects.requests.request_spec import HostLimits, Retry, Selection
from minova.objects.servers.build import BuildMessage
from minova.objects.servers.instance import Instance as InstanceObject
from minova.objects.servers.moves import MoveMessage
from minova.objects.servers.states import VmState

LOG = logging.getLogger(__name__)
# Until a failed message is sent again.
BACKOFF = Backoff(first=1.0, longest=30.0)
# The most builds in one message.
MAX_TOGETHER = 32


class BuildPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A build task's payload: the limits of its host, the hosts left to try, and the hosts tried before.

    `waits`: the kind of failure of a host that may run the guest, for which the build waits.
    """

    limits: HostLimits = HostLimits()
    alternates: tuple[Selection, ...] = ()
    tried: tuple[tuple[str, str], ...] = ()
    waits: str = ""


_BUILD_PLAN = Decoder(BuildPlan)

# By reservation.
Specs = Mapping[str, StoredRequest]


class Build(NamedTuple):
    host: str
    message: BuildMessage


def build_plan_of(task: Task) -> BuildPlan:
    return _BUILD_PLAN.from_builtins(task.payload)


def builds_of(
    session: Session,
    tasks: Iterable[Task],
    specs: Specs | None = None,
    in_hand: Mapping[str, InstanceObject] = {},
) -> list[Build]:
    """Returns the messages of tasks whose builds are committed to hosts. What is not given is read: the requests, and
    instances that are not `in_hand`.

    A server that is unshelved is built from the image of its unshelve request.
    """
    by_uuid = {task.instance_uuid: task for task in tasks if task.host is not None}
    if not by_uuid:
        return []
    specs_by_reservation = specs or request_specs.load(session, {task.reservation_id for task in by_uuid.values()})
    # The host gets their interfaces later, with the claim, and so up to date.
    unread = by_uuid.keys() - in_hand.keys()
    known_instances = {**in_hand, **(instances.by_uuids(session, unread, networks=False) if unread else {})}
    # In the order of the tasks: the servers of one request reach their hosts in the order of their numbers.
    instances_by_uuid = {uuid: known_instances[uuid] for uuid in by_uuid if uuid in known_instances}
    zones = zones_of_hosts(session) if any(instance.config_drive for instance in instances_by_uuid.values()) else {}
    messages = []
    for instance in instances_by_uuid.values():
        try:
            messages.append(_build_of(by_uuid[instance.uuid], instance, specs_by_reservation, zones))
        except (LookupError, msgspec.MsgspecError):
            # The error concerns this task alone, which ends at its deadline. The others must not wait for that.
            LOG.exception("No build message can be made for instance %s", instance.uuid)
    return messages


def zones_of_hosts(session: Session) -> dict[str, str]:
    """Returns {host: zone} of the hosts that are not in the default zone."""
    all_aggregates = aggregates.all_of(session).values()
    return {host: aggregate.zone for aggregate in all_aggregates if aggregate.zone for host in aggregate.hosts}


def _build_of(task: Task, instance: InstanceObject, specs: Specs, zones: Mapping[str, str]) -> Build:
    spec, build_extras = specs[task.reservation_id]
    plan = build_plan_of(task)
    if instance.vm_state is VmState.SHELVED_OFFLOADED:
        instance = msgspec.structs.replace(instance, image=spec.image)
    tried = (*plan.tried, (task.host or "", task.node or ""))
    message = BuildMessage(
        instance=instance,
        attempt=task.attempt,
        node=task.node or "",
        limits=plan.limits,
        alternates=plan.alternates,
        availability_zone=zones.get(task.host or "", ""),
        request_spec=msgspec.structs.replace(spec, retry=Retry(num_attempts=task.attempt, hosts=tried)),
        **msgspec.structs.asdict(build_extras),
    )
    return Build(task.host or "", message)


class UnsentMessages:
    """Instances whose last message could not be sent, with the time to send it again. Safe for threads."""

    def __init__(self, ticks: Callable[[], float]) -> None:
        self._ticks = ticks
        self._lock = threading.Lock()
        self._failures: dict[str, int] = {}
        self._due: dict[str, float] = {}

    def failed(self, instance_uuid: str) -> None:
        """Makes the instance due again after a pause, which grows with each failure."""
        with self._lock:
            failures = self._failures[instance_uuid] = self._failures.get(instance_uuid, 0) + 1
            self._due[instance_uuid] = self._ticks() + BACKOFF.pause(failures)

    def sent(self, instance_uuid: str) -> None:
        with self._lock:
            self._failures.pop(instance_uuid, None)
            self._due.pop(instance_uuid, None)

    def due(self) -> frozenset[str]:
        """Returns the due instances, each only once: its message then fails again, is sent, or need not be sent any
        more.
        """
        with self._lock:
            now = self._ticks()
            due_uuids = frozenset(uuid for uuid, at in self._due.items() if at <= now)
            for uuid in due_uuids:
                del self._due[uuid]
            # Forget instances that are not tried any more.
            self._failures = {
                uuid: count for uuid, count in self._failures.items() if uuid in self._due or uuid in due_uuids
            }
            return due_uuids


class ComputeClient:
    """Sends messages to computes.

    `compute`: returns the client of a host.
    `ticks`: seconds, monotonic.
    `token_for`: returns a token for the download of an image, by the image's ID.
    `absent_hosts`: returns the hosts where no compute works. They get no hints: they ask for everything when they start.
    """

    def __init__(
        self,
        compute: Callable[[str], ComputeApi],
        ticks: Callable[[], float] = time.monotonic,
        token_for: Callable[[str], str | None] = lambda image_id: None,
        absent_hosts: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self._compute = compute
        self._absent_hosts = absent_hosts
        self._token_for = token_for
        self.unsent = UnsentMessages(ticks)

    def build(self, ctx: RequestContext, builds: Iterable[Build]) -> None:
        """The builds of a host go in one message, unless the host is too old for that method."""
        by_host: dict[str, list[BuildMessage]] = defaultdict(list)
        for host, message in builds:
            by_host[host].append(self._with_token(message))
        for host, messages in by_host.items():
            uuids = [message.instance.uuid for message in messages]
            self._cast(host, uuids, lambda client, m=messages: send_builds(client, ctx, m))  # type: ignore[misc]

    def _with_token(self, message: BuildMessage) -> BuildMessage:
        image = message.instance.image
        return message if image is None else msgspec.structs.replace(message, image_token=self._token_for(image.id))

    def terminate(self, ctx: RequestContext, host: str, instance_uuid: str, node: str | None) -> None:
        work = lambda client: client.terminate_instance(ctx, instance_uuid=instance_uuid, node=node)  # noqa: E731
        self._cast(host, [instance_uuid], work)

    def network_changed(self, ctx: RequestContext, host: str, instance_uuid: str) -> None:
        """A hint that is not sent again, because the host asks from time to time."""
        if host in self._absent_hosts():
            return
        try:
            self._compute(host).network_changed(ctx, instance_uuid=instance_uuid)
        except errors.MinovaError as error:
            LOG.info(
                "Host %s could not be notified of a change of the interfaces of %s: %s", host, instance_uuid, error
            )

    def act(
        self,
        ctx: RequestContext,
        host: str,
        kind: str,
        instance: InstanceObject,
        action_id: int,
        arguments: HostArguments,
    ) -> None:
        """Request a server action. Raises PeerTooOld if the host runs none."""
        too_old: list[errors.PeerTooOld] = []

        def send(client: ComputeApi) -> None:
            try:
                client.run_action(ctx, instance=instance, action_id=action_id, kind=kind, arguments=arguments)
            except errors.PeerTooOld as error:
                too_old.append(error)

        self._cast(host, [instance.uuid], send)
        if too_old:
            raise too_old[0]

    def move(self, ctx: RequestContext, host: str, message: MoveMessage) -> None:
        work = lambda client: client.run_move(ctx, move=message)  # noqa: E731
        self._cast(host, [message.instance.uuid], work)

    def cancel_action(self, ctx: RequestContext, host: str, instance_uuid: str, action_id: int) -> None:
        """A failed message is not sent again, because the action is looked at again."""
        try:
            self._compute(host).cancel_action(ctx, instance_uuid=instance_uuid, action_id=action_id)
        except errors.MinovaError as error:
            LOG.log(
                errors.level_of(error), "Host %s could not be asked to cancel action %d: %s", host, action_id, error
            )

    def refresh_interfaces(self, ctx: RequestContext, host: str) -> None:
        """A failed message is not sent again, because the host asks from time to time."""
        if host in self._absent_hosts():
            return
        try:
            self._compute(host).refresh_interfaces(ctx)
        except Exception as error:  # noqa: BLE001  - whatever it is, the host asks later
            LOG.log(
                errors.level_of(error), "Host %s could not be notified that interfaces have changed: %s", host, error
            )

    def refresh_members(self, ctx: RequestContext, host: str, members: tuple[GroupMembers, ...]) -> None:
        """As with `refresh_interfaces`, a failed message is not sent again."""
        if host in self._absent_hosts():
            return
        try:
            self._compute(host).refresh_members(ctx, members=members)
        except Exception as error:  # noqa: BLE001  - whatever it is, the host asks later
            LOG.log(errors.level_of(error), "Host %s could not be sent the members of security groups: %s", host, error)

    def _cast(self, host: str, instance_uuids: Sequence[str], send: Callable[[ComputeApi], None]) -> None:
        try:
            send(self._compute(host))
        except Exception as error:  # noqa: BLE001  - whatever it is, the row is looked at again
            LOG.log(errors.level_of(error), "A message to %s could not be sent: %s", host, error)
            note = self.unsent.failed
        else:
            note = self.unsent.sent
        for instance_uuid in instance_uuids:
            note(instance_uuid)


def send_builds(client: ComputeApi, ctx: RequestContext, messages: Sequence[BuildMessage]) -> None:
    if len(messages) > 1:
        try:
            for some in chunked(messages, MAX_TOGETHER):
                client.build_and_run_instances(ctx, builds=tuple(some))
            return
        except errors.PeerTooOld as error:
            LOG.debug("Builds are sent one by one: %s", error)
    for message in messages:
        client.build_and_run_instance(ctx, build=message)
