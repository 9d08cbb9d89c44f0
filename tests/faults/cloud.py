"""minova inside a World: two conductors, two schedulers and some computes, and what must be true once all is quiet."""

import itertools
import logging
import math
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import msgspec
from oslo_config import cfg
from sqlalchemy import func, select

from minova import errors
from minova.cmd.compute import make_manager as make_compute_manager
from minova.cmd.conductor import make_manager
from minova.compute.actions.results import UnreportedResults
from minova.compute.guest_records import GuestRecords
from minova.compute.host_identity import LocalIdentity
from minova.compute.images.source import ImageSource
from minova.compute.images.tokens import ImageToken
from minova.compute.manager import ComputeManager
from minova.conductor.hosts import rename
from minova.conductor.manager import ConductorManager
from minova.conductor.unexpected import listing
from minova.conductor.unexpected.listing import UnexpectedItem
from minova.context import RequestContext
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.contracts.scheduler import SchedulerApi
from minova.db import quotas
from minova.db.models import Image as ImageRow
from minova.db.models import Instance, InstanceAction, InstanceFault, IpAllocation, Port, Service
from minova.db.networks import ports
from minova.db.recovery import cloud as records
from minova.messaging.notifier import Notifier
from minova.objects.actions.interfaces import DETACH_INTERFACE
from minova.objects.actions.moves import RESIZE, MoveRequest
from minova.objects.actions.table import BY_KIND
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.requests.build_extras import RequestedNic
from minova.objects.requests.server_request import CreateServers
from minova.objects.servers.states import PowerState
from minova.objects.unexpected.removal_rules import DomainVerdict
from minova.scheduler.manager import SchedulerManager
from minova.virt.driver import ComputeDriver
from minova.virt.fake import FakeDriver
from minova.witness import Witness
from tests import backups
from tests.cluster import configure
from tests.fakes.interfaces import arguments as interface_arguments
from tests.fakes.interfaces import network_of
from tests.faults.world import Event, MortalDriver, Process, World
from tests.invariants import violations
from tests.tables import make_tables, prepare

LOG = logging.getLogger(__name__)
FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=512, root_gb=1)
LARGER = Flavor(flavorid="2", name="m2", vcpus=2, memory_mb=1024, root_gb=2)
IMAGE = Image(id="5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11", name="i", status="active", disk_format="raw", size=0)
SMALL = {
    "fake_vcpus": 2,
    "fake_memory_mb": 4096 + 512,
    "fake_local_gb": 20,
    "conductor__build_timeout": 200,
    # As rarely as these storms bear: most of what is tried here does not depend on it, and each look costs time.
    "conductor__worker_lease": 36,
    "conductor__task_interval": 5,
}
# Beside the kinds of server actions: what users do with a server's port.
DELETE_PORT = "delete_port"
CONTROLLERS = {"conductor": ("conductor-a", "conductor-b"), "scheduler": ("scheduler-a", "scheduler-b")}


class Uploads:
    """As the Image API takes the bytes of a host, without the bytes."""

    def __init__(self, conductor: ConductorApi) -> None:
        self._conductor = conductor

    def upload(self, image: Image, path: Path, token: ImageToken, check: Callable[[], None]) -> None:
        check()
        ctx = RequestContext(request_id="req-upload", user_id="image-token", project_id="image-token")
        saving = msgspec.structs.replace(image, status="saving")
        with suppress(errors.Conflict):  # an earlier upload was broken off
            self._conductor.update_image(ctx, image=saving, expected_status="queued")
        check()
        size = path.stat().st_size
        active = msgspec.structs.replace(image, status="active", size=size)
        try:
            self._conductor.update_image(ctx, image=active, expected_status="saving")
        except errors.Conflict:
            LOG.info("Image %s has its bytes", image.id)


class Cloud:
    """`clients` repeat a create with the same UUID when its answer does not come, as the CLI does. `overrides`: options, and the
    `notifier` of the conductors.
    """

    def __init__(self, seed: int, folder: Path, hosts: int, **overrides: Any) -> None:
        self._notifier: Notifier | None = overrides.pop("notifier", None)
        self._overrides = overrides
        self._confs: dict[str, cfg.ConfigOpts] = {}
        # Revisions draw names as well. Those of a story come from its seed, whatever was told before it.
        prepare()
        self.world = World(seed, f"sqlite:///{folder}/minova.sqlite")
        make_tables(self.world.url, now=self.world.now)
        self.hosts = [f"host-{number}" for number in range(hosts)]
        self.folder = folder
        self.drivers: dict[str, FakeDriver] = {}
        # Hosts may be renamed; what is on their disks stays: the folder of each.
        self.machines = {host: host for host in self.hosts}
        self.acknowledged: set[str] = set()
        self.delete_asked: set[str] = set()
        self.deleted_ports: set[str] = set()
        self.asked: dict[str, int] = {}
        # Guests that go on by themselves, and not by their drivers.
        self.runs_by_itself: set[str] = set()
        self.stopped_running: list[str] = []
        self._last_record = 0
        self._requests = itertools.count()
        self.world.on_delivery = self._note_stops
        self.db = self.world.database()
        for name in CONTROLLERS["conductor"]:
            self.world.start(name, ConductorApi, self._conductor)
        for name in CONTROLLERS["scheduler"]:
            self.world.start(name, SchedulerApi, self._scheduler)
        for host in self.hosts:
            self.drivers[host] = FakeDriver(self.conf(host))
            self.world.start(host, ComputeApi, self._compute)
        self.conductor: ConductorApi = self._client(ConductorApi, None, "conductor")

    def conf(self, host: str) -> cfg.ConfigOpts:
        """The same for each incarnation of a service: to read it takes longer than the rest of a start."""
        if host not in self._confs:
            self._confs[host] = configure(self.folder / host, host=host, **SMALL | self._overrides)
        return self._confs[host]

    def _client(self, contract: Any, sender: Process | None, kind: str) -> Any:
        return self.world.client(contract, sender, lambda: list(CONTROLLERS.get(kind, (kind,))))

    def _conductor(self, process: Process) -> ConductorManager:
        return make_manager(
            self.conf(process.name),
            self.world.database(process),
            self._client(SchedulerApi, process, "scheduler"),
            lambda host: self._client(ComputeApi, process, host),
            host=process.name,
            clock=lambda: self.world.wall(process.name),
            ticks=lambda: self.world.now,
            spawn=self.world.spawn(process),
            stopping=cast(threading.Event, Event(process)),
            notifier=self._notifier,
            witness=self._witness(process, "conductor"),
        )

    def _scheduler(self, process: Process) -> SchedulerManager:
        return SchedulerManager(
            self.conf(process.name),
            self.world.database(process),
            self._client(ConductorApi, process, "conductor"),
            host=process.name,
            clock=lambda: self.world.wall(process.name),
            stopping=cast(threading.Event, Event(process)),
            witness=self._witness(process, "scheduler"),
        )

    def _witness(self, process: Process, kind: str) -> Witness:
        """Outlives the process on the disk of its machine. A service of another cloud than the database does not start."""
        witness = Witness(self.folder / self.machines.get(process.name, process.name) / f"cloud-{kind}")
        with self.db.read() as session:
            row = records.record(session, self.db.now())
        if kind != "compute" and witness.seen is not None and (row is None or row.uuid != witness.seen.uuid):
            raise errors.InvalidConfiguration(f"{process.name} belongs to another cloud")
        return witness

    def _compute(self, process: Process) -> ComputeManager:
        identity = LocalIdentity(self.folder / self.machines[process.name])
        process.at_death.append(identity.release)
        return make_compute_manager(
            self.conf(process.name),
            cast(ComputeDriver, MortalDriver(self.drivers[process.name], process)),
            self._client(ConductorApi, process, "conductor"),
            host=process.name,
            # Guests of the fake hypervisor have no disks.
            images=cast(ImageSource, None),
            uploads=Uploads(self._client(ConductorApi, process, "conductor")),
            identity=identity,
            results=UnreportedResults(self.folder / self.machines[process.name] / "actions"),
            records=GuestRecords(self.folder / self.machines[process.name] / "guests"),
            clock=lambda: self.world.wall(process.name),
            ticks=lambda: self.world.now,
            spawn=self.world.spawn(process),
            stopping=cast(threading.Event, Event(process)),
            witness=self._witness(process, "compute"),
            repeated=self.world.repeated(process),
        )

    # -- what users do ---------------------------------------------------------------------------------------------

    def create(self, number: int, count: int, *, tries: int = 5, interfaces: int = 0) -> None:
        nics: tuple[RequestedNic, ...] = ()
        if interfaces:
            with self.db.write() as session:
                nics = (RequestedNic(network_id=network_of(session).uuid),) * interfaces
        request = CreateServers(
            name=f"vm{number}",
            flavor=FLAVOR,
            image=IMAGE,
            min_count=count,
            max_count=count,
            request_uuid=f"00000000-0000-4000-8000-{number:012d}",
            body_hash=str(number),
            requested_networks=nics,
        )
        self.asked[request.name] = count
        try:
            created = self.conductor.create_servers(self.user(number), request=request)
            self.acknowledged.update(created.instance_uuids)
        except errors.ServiceUnavailable:
            if tries:
                self.world.later(3.0, None, lambda: self.create(number, count, tries=tries - 1, interfaces=interfaces))

    def delete_one(self, host: str | None = None) -> None:
        """Any server, or any of a host, in whatever state; a user whose request fails leaves it at that."""
        with self.db.read() as session:
            query = select(Instance.uuid).where(Instance.deleted_at.is_(None))
            alive = session.scalars(query if host is None else query.where(Instance.host == host)).all()
        if alive:
            chosen = self.world.random.choice(sorted(alive))
            self.delete_asked.add(chosen)
            self.conductor.delete_server(self.user(), instance_uuid=chosen)

    def act_on_one(self, kind: str) -> None:
        """A server action for any server that is or was running; one in another state refuses it."""
        with self.db.read() as session:
            query = select(Instance.uuid).where(Instance.deleted_at.is_(None), Instance.vm_state != "building")
            servers = sorted(session.scalars(query))
        if servers:
            chosen = self.world.random.choice(servers)
            with suppress(errors.Conflict, errors.NotFound, errors.BadRequest):
                self.act(chosen, kind)

    def act(self, instance_uuid: str, kind: str) -> None:
        """Raises what the conductor raises. `delete_port`: of one of its ports."""
        if kind == DELETE_PORT:
            with self.db.read() as session:
                own_ports = ports.of_instance(session, instance_uuid)
            if not own_ports:
                raise errors.PortNotFound(f"Instance {instance_uuid} has no interface.")
            self.conductor.delete_port(self.user(), port_id=own_ports[0].id)
            self.deleted_ports.add(own_ports[0].id)
            return
        with self.db.write() as session:
            network_of(session)
        with self.db.read() as session:
            if kind == DETACH_INTERFACE.kind and not ports.of_instance(session, instance_uuid):
                raise errors.PortNotFound(f"Instance {instance_uuid} has no interface.")
            arguments = interface_arguments(session, BY_KIND[kind], instance_uuid)
        if kind == RESIZE.kind:
            arguments = msgspec.to_builtins(MoveRequest(flavor=self.world.random.choice([FLAVOR, LARGER])))
        self.conductor.start_action(self.user(), instance_uuid=instance_uuid, action=kind, arguments=arguments)

    def turn_one(self, state: PowerState) -> None:
        """Any guest goes into another state by itself."""
        guests = sorted((host, domain.uuid) for host in self.hosts for domain in self.drivers[host].domains())
        if guests:
            host, uuid = self.world.random.choice(guests)
            if state is PowerState.RUNNING:
                self.runs_by_itself.add(uuid)
            else:
                self.runs_by_itself.discard(uuid)
            self.drivers[host].turn(uuid, state)

    def user(self, number: int | None = None) -> RequestContext:
        """`number`: of a request that may be repeated; each other request has an ID of its own."""
        name = f"repeated-{number}" if number is not None else next(self._requests)
        return RequestContext(request_id=f"req-{name}", user_id="u", project_id="p")

    # -- what operators do -----------------------------------------------------------------------------------------

    def rename(self, old: str, new: str) -> None:
        """Stop a host's compute, rename the host once that is allowed, and start it under its new name."""
        self.world.keep_down([old], math.inf)
        down_time = float(self.conf(old).service_down_time)
        try:
            self.db.run(lambda session: rename.rename(session, old, new, None, down_time=down_time, now=self.db.now()))
        except errors.Conflict:
            self.world.later(10.0, None, lambda: self.rename(old, new))
            return
        self.hosts[self.hosts.index(old)] = new
        self.machines[new] = self.machines.pop(old)
        self.drivers[new] = self.drivers.pop(old)
        self.drivers[new].nodes = (new,)
        self.world.replace(self.world.processes[old], new)

    def back_up(self) -> None:
        backups.take(self.folder / "minova.sqlite", self.folder / "backup.sqlite")

    def restore(self) -> None:
        """The last backup, under the services that run."""
        backups.restore(self.folder / "backup.sqlite", self.folder / "minova.sqlite")

    def running(self) -> set[tuple[str, str]]:
        """(host, uuid) of each guest that runs."""
        return {
            (host, domain.uuid)
            for host, driver in self.drivers.items()
            for domain in driver.domains()
            if domain.power_state == PowerState.RUNNING
        }

    def unexpected(self) -> list[UnexpectedItem]:
        """What hosts hold, and the database lacks."""
        with self.db.read() as session:
            return [thing for thing in listing.listed(session) if thing.reason != DomainVerdict.NO_GUEST.value]

    def safe_since(self) -> float | None:
        with self.db.read() as session:
            row = records.record(session, self.db.now())
        assert row is not None
        return row.safe_since

    def _note_stops(self, method: str, sent: dict[str, Any]) -> None:
        """After each message: no instance becomes `stopped` without its user, while the guest that its user has started runs."""
        if method != "report_power_states" or "after" not in sent:  # a host of the release before proves nothing
            return
        with self.db.read() as session:
            model = InstanceAction
            query = select(model.id, model.instance_uuid, model.action, model.user_id).order_by(model.id)
            new = session.execute(query.where(model.id > self._last_record)).all()
        for number, uuid, action, user_id in new:
            self._last_record = number
            domain = self.drivers[sent["host"]].domain(uuid) if sent["host"] in self.drivers else None
            is_running = domain is not None and domain.power_state is PowerState.RUNNING
            if (
                (action, user_id) in {("stop", ""), ("guest_crash", "")}
                and is_running
                and uuid not in self.runs_by_itself
            ):
                self.stopped_running.append(f"{uuid} runs, and was stopped without its user")

    # -- what must be true -----------------------------------------------------------------------------------------

    def in_error(self) -> list[str]:
        """Servers in error, with their faults."""
        with self.db.read() as session:
            rows = session.execute(
                select(Instance.uuid, InstanceFault.message)
                .join(InstanceFault, InstanceFault.instance_uuid == Instance.uuid)
                .where(Instance.vm_state == "error", Instance.deleted_at.is_(None))
            )
            return [f"{uuid} is in error: {message}" for uuid, message in rows]

    def _unfinished_images(self) -> list[str]:
        """Nothing is in progress: an image is complete or gone."""
        files = [str(path) for path in self.folder.glob("*/**/snapshots/*/*")]
        with self.db.read() as session:
            rows = session.execute(select(ImageRow.id, ImageRow.status).where(ImageRow.status != "active"))
            return [f"image {image_id} is left {status}" for image_id, status in rows] + files

    def _interfaces(self) -> list[str]:
        """Guests have the interfaces of their servers, each address is of one port, and what is counted is there."""
        violations_found = []
        with self.db.read() as session:
            rows = session.execute(
                select(Instance.uuid, Instance.host).where(
                    Instance.deleted_at.is_(None), Instance.vm_state.in_(("active", "paused", "stopped"))
                )
            )
            for uuid, host in rows:
                expected_macs = sorted(port.mac_address for port in ports.of_instance(session, uuid))
                driver = self.drivers.get(host or "")
                if driver is None or uuid not in {domain.uuid for domain in driver.domains()}:
                    continue
                has = sorted(vif.mac_address for vif in driver.interfaces(uuid))
                if has != expected_macs:
                    violations_found.append(f"{uuid} has the interfaces {expected_macs}, and its guest {has}")
            violations_found += [
                f"port {port_id} was deleted and is back"
                for port_id in self.deleted_ports
                if ports.find(session, port_id)
            ]
            gone = select(Port.uuid).join(Instance, Instance.uuid == Port.instance_uuid)
            violations_found += [
                f"port {port_id} is of no server"
                for port_id in session.scalars(gone.where(Instance.deleted_at.is_not(None)))
            ]
            port_count = session.scalar(select(func.count()).select_from(Port)) or 0
            given = session.scalar(select(func.count()).select_from(IpAllocation)) or 0
            counted = quotas.usages_of(session, "p").get("ports", 0)
        return [
            *violations_found,
            *([] if port_count == given == counted else [f"{port_count} ports, {given} addresses, {counted} counted"]),
        ]

    def begin_as_last_release(self, names: set[str]) -> None:
        """These services are of the last release, and have registered so."""
        self.world.last_release = names
        with self.db.write() as session:
            session.query(Service).filter(Service.host.in_(names)).update({"version": 0})

    def violations(self) -> list[str]:
        """Once quiet: the invariants of any cloud, and every server that was acknowledged is there, once, or was deleted."""
        domains = {
            host: [domain.uuid for domain in self.drivers[host].domains() if domain.power_state == PowerState.RUNNING]
            for host in self.hosts
        }
        with self.db.read() as session:
            violations_found = self.world.errors + violations(session, domains)
            rows = session.execute(select(Instance.uuid, Instance.display_name))
            names = {uuid: name.partition("-")[0] for uuid, name in rows}
        violations_found += self._unfinished_images() + self._interfaces() + self.stopped_running
        lost = self.acknowledged - names.keys() - self.delete_asked
        violations_found += [f"{uuid} was acknowledged and is lost" for uuid in sorted(lost)]
        count_by_name = Counter(names.values())
        violations_found += [
            f"{name} was asked for {self.asked[name]} times and is there {count_by_name[name]} times"
            for name in count_by_name
            if count_by_name[name] > self.asked[name]
        ]
        return violations_found
