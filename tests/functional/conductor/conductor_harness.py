"""Conductors over one database, with a scheduler that claims but decides as told, and hosts that note what they are asked.

Time stands still until a test moves it; background work waits until `settle` runs it.
"""

import itertools
import math
import threading
from collections.abc import Callable
from typing import Any

import msgspec
from oslo_config import cfg
from sqlalchemy import delete, select

from minova import conf as configuration
from minova.cmd.conductor import make_manager
from minova.context import RequestContext
from minova.db import models
from minova.db.api_queries import instances
from minova.db.engine import Database
from minova.db.servers import actions
from minova.messaging.notifier import Notifier
from minova.objects.actions.guest_changes import LastAction
from minova.objects.actions.shelving import SHELVE
from minova.objects.actions.table import BY_KIND, RUN_BY_HOSTS
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.guests.guest_states import GuestReason
from minova.objects.hosts.compute_node import AvailableResources, ComputeNode, DomainView, Inventory
from minova.objects.hosts.service import SERVICE_VERSION, Service
from minova.objects.requests.diagnosis import Diagnosis
from minova.objects.requests.server_request import CreateServers
from minova.objects.servers.states import VmState
from minova.service import unless_safe
from minova.witness import Witness
from tests import limits
from tests.fakes import interfaces
from tests.fakes.action_arguments import power_state_after
from tests.fakes.running_conductor import RunningConductor, running
from tests.functional.conductor.fakes import FakeHost, FakeScheduler
from tests.functional.scheduler.cloud import named

CTX = RequestContext(request_id="req-1", user_id="alice", project_id="demo")
REQUESTS = itertools.count(2)
FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=512, root_gb=1)
IMAGE = Image(id=named("image"), name="guest", status="active", disk_format="raw", properties={"os_type": "linux"})
START = 1_700_000_000.0
# Seconds between looks at what may be purged, counted again and the like: new databases have nothing of it, and looks take time.
HOUSEKEEPING = 60.0
# Of the intervals of what a beat leaves out: purges, counts and audits of whole tables, which a third of the time of a test went into.
RARE = 600.0


def new_request() -> RequestContext:
    """A request of the same user, with an ID of its own: an action is begun once for each request."""
    return msgspec.structs.replace(CTX, request_id=f"req-{next(REQUESTS)}")


class NoPauses(threading.Event):
    """Does not wait: one thread does everything here, so nothing would change during a pause."""

    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set()


class ConductorHarness:
    """`hosts` are registered and audited, unless the database has them already: `prepared`. `now` is everybody's clock, the
    database's too.

    With `wall` only the database's wall clock is `now` and `step` seconds: the cloud clock is the real one, and moves with the
    conductors' periodic work. `host_step` is that of the conductors' own wall clocks.
    """

    def __init__(
        self,
        url: str,
        hosts: tuple[str, ...] = ("a", "b", "c"),
        notifier: Notifier | None = None,
        wall: bool = False,
        prepared: bool = False,
        **options: Any,
    ) -> None:
        self.now = START
        self.step = self.host_step = 0.0
        self.notifier = notifier
        self.db = Database(url, clock=None if wall else self._wall, wall=self._wall)
        self.options = options
        # The versions of contracts that every service serves, by topic.
        self.levels: dict[str, str] = {}
        self.waiting: list[tuple[str, Callable[[], None]]] = []
        self.scheduler = FakeScheduler(self.db)
        self.hosts = {name: FakeHost(name) for name in hosts}
        self.conductor = self.start("one")
        for name in () if prepared else hosts:
            self.add_host(name)
        self.scheduler.order = list(hosts)
        self._do_periodic_work(self.conductor, more_often_than=HOUSEKEEPING)

    def _wall(self) -> float:
        return self.now + self.step

    def conf(self) -> cfg.ConfigOpts:
        conf = configuration.new()
        conf([], project="minova", default_config_files=[])
        for name, limit in limits.UNLIMITED.items():
            conf.set_override(name, limit, group="quota")
        # Each action by itself: what follows a shelve has tests of its own.
        for name, value in ({"shelved_offload_time": -1} | self.options).items():
            group, _, option = name.rpartition("__")
            conf.set_override(option, value, group=group or None)
        return conf

    def start(self, host: str, witness: Witness | None = None) -> RunningConductor:
        """Another conductor, as a process of its own would be. `witness`: what it has seen of its cloud. `settings` has the
        options of the last one.
        """
        self.settings = self.conf()
        manager = running(
            make_manager(
                self.settings,
                self.db,
                self.scheduler,
                lambda name: self.hosts.setdefault(name, FakeHost(name)),
                host=host,
                clock=lambda: self.now + self.host_step,
                ticks=lambda: self.now,
                spawn=lambda work: self.waiting.append((host, work)),
                notifier=self.notifier,
                stopping=NoPauses(),
                witness=witness,
                levels=lambda: self.levels,
            )
        )
        manager.init_host()
        manager.post_start_hook()
        return manager

    def kill(self, host: str) -> None:
        """What it had in hand is never done."""
        self.waiting = [item for item in self.waiting if item[0] != host]

    def close(self) -> None:
        self.db.close()

    # -- time and work ---------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Do what waits in the background, and what comes of it."""
        while self.waiting:
            self.waiting.pop(0)[1]()

    def tick(self, conductor: RunningConductor, seconds: float = 0.0) -> None:
        """Time passes, then this conductor does its periodic work."""
        self.now += seconds
        self._do_periodic_work(conductor)

    def _do_periodic_work(self, conductor: RunningConductor, more_often_than: float = math.inf) -> None:
        for task in conductor.periodic_tasks():
            if task.interval < more_often_than:
                unless_safe(task, conductor.safe_mode).work()
        self.settle()

    def beat(self, *hosts: str) -> None:
        for host in hosts or self.hosts:
            self.conductor.heartbeat(CTX, host=host, binary="minova-compute")
        self._do_periodic_work(self.conductor, more_often_than=RARE)

    def silence(self, host: str) -> None:
        """The compute of this host is not heard until it is down."""
        others = [name for name in self.hosts if name != host]
        for _ in range(8):
            self.now += 10
            self.beat(*others)
        self.tick(self.conductor, 10)

    def force_down(self, host: str, *, forced_down: bool = True) -> None:
        """An operator or a monitor says that the host is off."""
        with self.db.read() as session:
            service = session.scalars(select(models.Service).where(models.Service.host == host)).one()
        self.conductor.update_service(CTX, service_uuid=service.uuid, forced_down=forced_down)
        self.tick(self.conductor, 1)

    def cannot_work(self, host: str) -> None:
        """The compute of this host reports that its hypervisor is away."""
        self.conductor.heartbeat(CTX, host=host, binary="minova-compute", down_reason="libvirtd is gone")
        self.tick(self.conductor, 1)

    # -- hosts -----------------------------------------------------------------------------------------------------

    def register(self, name: str, conductor: RunningConductor | None = None) -> None:
        """The compute of a host is started."""
        service = Service(
            uuid=named(f"service {name}"),
            host=name,
            binary="minova-compute",
            topic="compute",
            version=SERVICE_VERSION,
        )
        (conductor or self.conductor).register_service(CTX, service=service)

    def add_host(self, name: str, vcpus: int = 4) -> ComputeNode:
        self.register(name)
        return self.audit(name, vcpus=vcpus)

    def audit(self, name: str, **changes: Any) -> ComputeNode:
        with self.db.read() as session:
            row = session.scalar(select(models.ComputeNode).where(models.ComputeNode.host == name))
        node = self.node(name, **changes)
        if row is not None:
            node = msgspec.structs.replace(node, id=row.id, generation=row.generation)
        return self.conductor.finish_audit(CTX, node=node, inventories=inventories_of(node))

    @staticmethod
    def node(name: str, **changes: Any) -> ComputeNode:
        values = {"vcpus": 4, "memory_mb": 4096, "local_gb": 20, **changes}
        return ComputeNode(uuid=named(name), host=name, hypervisor_hostname=f"{name}-node", id=1, **values)

    def view(self, name: str, *domains: str, attempt: int = 1, power_state: int = 1) -> AvailableResources:
        """`attempt`, `power_state`: of each of the domains."""
        seen = [
            DomainView(uuid=d, name=d, memory_mb=512, vcpus=1, power_state=power_state, attempt=attempt)
            for d in domains
        ]
        return AvailableResources(
            node=f"{name}-node",
            vcpus=4,
            memory_mb=4096,
            memory_mb_used=0,
            local_gb=20,
            local_gb_used=0,
            hypervisor_type="fake",
            hypervisor_version=1,
            hypervisor_hostname=f"{name}-node",
            domains=tuple(seen),
        )

    def claim(self, host: str, uuid: str, attempt: int = 1) -> Any:
        node = self.node(host, vcpus_used=1, memory_mb_used=512, running_vms=1)
        return self.conductor.claim_instance(CTX, instance_uuid=uuid, attempt=attempt, node=node)

    def succeed(self, host: str, uuid: str, attempt: int = 1) -> None:
        report: dict[str, Any] = {"instance_uuid": uuid, "attempt": attempt, "host": host}
        self.conductor.build_succeeded(CTX, **report, power_state=1)

    def build(self, host: str, uuid: str, attempt: int = 1) -> None:
        """All that a host says of a build that goes well."""
        report: dict[str, Any] = {"instance_uuid": uuid, "attempt": attempt, "host": host}
        self.claim(host, uuid, attempt)
        for step in ("block_device_mapping", "spawning"):
            self.conductor.begin_attempt(CTX, **report, step=step)
        self.succeed(host, uuid, attempt)

    def fail(
        self,
        host: str,
        uuid: str,
        attempt: int = 1,
        reason: str = "disk broken",
        retriable: bool = True,
        kind: str = "",
    ) -> None:
        report: dict[str, Any] = {"instance_uuid": uuid, "attempt": attempt, "host": host}
        self.conductor.build_failed(CTX, **report, reason=reason, retriable=retriable, kind=kind)

    # -- users -----------------------------------------------------------------------------------------------------

    def create(self, count: int = 1, **more: Any) -> tuple[str, ...]:
        """Ask, and let the conductor schedule."""
        instance_uuids = self.conductor.create_servers(CTX, request=request(count, **more)).instance_uuids
        self.settle()
        return instance_uuids

    def active(self, host: str = "a", **more: Any) -> str:
        """A server that runs on this host."""
        (uuid,) = self.create(**more)
        self.build(host, uuid)
        return uuid

    def delete(self, uuid: str) -> None:
        self.conductor.delete_server(new_request(), instance_uuid=uuid)

    def act(self, uuid: str, kind: str) -> int:
        """Ask for a server action; answers its id."""
        with self.db.write() as session:
            arguments = interfaces.arguments(session, BY_KIND[kind], uuid) if kind in BY_KIND else {}
        self.conductor.start_action(new_request(), instance_uuid=uuid, action=kind, arguments=arguments)
        return self.action_id(uuid)

    def acted(self, uuid: str, kind: str, host: str = "a") -> None:
        """Ask for a server action, which its host does."""
        report: dict[str, Any] = {"instance_uuid": uuid, "action_id": self.act(uuid, kind), "host": host}
        self.conductor.begin_action(CTX, **report)
        if BY_KIND[kind] is SHELVE:
            self.upload(uuid)
        self.conductor.action_succeeded(CTX, **report, power_state=power_state_after(BY_KIND[kind]))

    def report_power(
        self, uuid: str, state: int, reason: GuestReason = GuestReason.NONE, *, host: str = "a"
    ) -> dict[str, LastAction] | None:
        """As a host does: it reads the state again if the instance would change. Returns the last answer."""
        said: dict[str, Any] = {"host": host, "states": {uuid: int(state)}, "reasons": {uuid: reason.value}}
        last = self.conductor.report_power_states(CTX, **said, after={})
        return self.conductor.report_power_states(CTX, **said, after=last) if last else last

    def upload(self, uuid: str) -> None:
        """All bytes of the image that its host makes of it have come."""
        with self.db.write() as session:
            task = session.scalars(select(models.Task).where(models.Task.instance_uuid == uuid)).one()
            row = session.get_one(models.Image, task.payload["arguments"]["image"]["id"])
            row.status, row.value = "active", msgspec.structs.replace(row.value, status="active", size=3 << 20)

    def bring_to(self, uuid: str, vm_state: VmState) -> None:
        """From ACTIVE, by the action that ends there, or by a failure."""
        if vm_state is VmState.ERROR:
            action_id = self.act(uuid, "reboot_hard")
            report: dict[str, Any] = {"instance_uuid": uuid, "action_id": action_id, "host": "a"}
            self.conductor.action_failed(CTX, **report, reason="it does not start", power_state=4)
        elif vm_state is not VmState.ACTIVE:
            action = next(action for action in RUN_BY_HOSTS if action.ends_in is vm_state)
            if VmState.ACTIVE not in action.vm_states:
                self.bring_to(uuid, min(action.vm_states))
            self.acted(uuid, action.kind)

    # -- what the tables say ---------------------------------------------------------------------------------------

    def instance(self, uuid: str) -> models.Instance:
        with self.db.read() as session:
            return session.scalars(select(models.Instance).where(models.Instance.uuid == uuid)).one()

    def state(self, uuid: str) -> str:
        row = self.instance(uuid)
        return f"{row.vm_state}/{row.task_state} on {row.host}"

    def task(self, uuid: str) -> models.Task | None:
        with self.db.read() as session:
            return session.scalar(select(models.Task).where(models.Task.instance_uuid == uuid))

    def fault(self, uuid: str) -> str:
        with self.db.read() as session:
            model = models.InstanceFault
            query = select(model).where(model.instance_uuid == uuid).order_by(model.id.desc())
            row = session.scalars(query).first()
            return row.details if row is not None else ""

    def diagnosis(self, uuid: str) -> Diagnosis:
        with self.db.read() as session:
            last_diagnosis = instances.last_diagnosis(session, uuid)
            assert last_diagnosis is not None
            return last_diagnosis.value

    def actions(self, uuid: str) -> list[tuple[str, str | None]]:
        with self.db.read() as session:
            model = models.InstanceAction
            query = select(model.action, model.result).where(model.instance_uuid == uuid).order_by(model.id)
            return [(action, result) for action, result in session.execute(query)]

    def last_action(self, uuid: str) -> LastAction:
        with self.db.read() as session:
            return actions.last_of(session, [uuid]).get(uuid, LastAction())

    def action_id(self, uuid: str) -> int:
        """Of the newest action."""
        return self.last_action(uuid).number

    def events(self, action_id: int) -> list[tuple[str, str | None, str | None]]:
        """(event, host, result) of each event of an action."""
        with self.db.read() as session:
            model = models.InstanceActionEvent
            query = select(model.event, model.host, model.result).where(model.action_id == action_id)
            return [(event, host, result) for event, host, result in session.execute(query.order_by(model.id))]

    def outcome(self, uuid: str) -> str:
        """Of the first action, as people see it."""
        with self.db.read() as session:
            model = models.InstanceAction
            query = select(model.result, model.message).where(model.instance_uuid == uuid).order_by(model.id)
            result, message = session.execute(query).first() or (None, None)
            return f"{result}: {message}"

    def allocated(self) -> dict[str, str]:
        """{instance uuid: host it has resources of}."""
        by_provider = {named(name): name for name in self.hosts}
        with self.db.read() as session:
            model, provider = models.Allocation, models.ResourceProvider
            query = select(model.consumer_uuid, provider.uuid).join(provider, provider.id == model.provider_id)
            return {consumer: by_provider[uuid] for consumer, uuid in session.execute(query)}

    def used(self, host: str) -> dict[str, int]:
        with self.db.read() as session:
            model, provider = models.Inventory, models.ResourceProvider
            query = select(model.resource_class, model.used).join(provider, provider.id == model.provider_id)
            return {row[0]: row[1] for row in session.execute(query.where(provider.uuid == named(host)))}

    def row(self, host: str) -> models.ComputeNode:
        with self.db.read() as session:
            return session.scalars(select(models.ComputeNode).where(models.ComputeNode.host == host)).one()

    def count(self, model: Any) -> int:
        with self.db.read() as session:
            return len(session.scalars(select(model)).all())


def make_hosts(url: str) -> None:
    """Registered and audited, for harnesses that are `prepared`. The conductor that did it is gone."""
    harness = ConductorHarness(url)
    with harness.db.write() as session:
        session.execute(delete(models.Worker))
    harness.close()


def request(count: int = 1, **more: Any) -> CreateServers:
    return CreateServers(
        **{"name": "web", "flavor": FLAVOR, "image": IMAGE, "min_count": count, "max_count": count, **more}
    )


def inventories_of(node: ComputeNode) -> tuple[Inventory, ...]:
    totals = {"VCPU": node.vcpus, "MEMORY_MB": node.memory_mb, "DISK_GB": node.local_gb}
    return tuple(Inventory(resource_class=name, total=total, max_unit=total) for name, total in totals.items())
