"""minova inside a World: two conductors, two schedulers and some computes, and what must be true once all is quiet."""

import threading
from pathlib import Path
from typing import Any, cast

from oslo_config import cfg
from sqlalchemy import func, select

from minova import errors
from minova.compute.builds import Images
from minova.compute.manager import ComputeManager
from minova.conductor.manager import ConductorManager
from minova.context import RequestContext
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.contracts.scheduler import SchedulerApi
from minova.db import schema
from minova.db.models import Allocation, ComputeNode, Instance, Inventory, ResourceProvider, Task
from minova.objects.flavor import Flavor
from minova.objects.image import Image
from minova.objects.resource_request import resource_alternatives
from minova.objects.server_request import CreateServers
from minova.objects.states import PowerState
from minova.scheduler.manager import SchedulerManager
from minova.virt.driver import Driver
from minova.virt.fake import FakeDriver
from tests.cluster import configure
from tests.faults.world import Event, MortalDriver, Process, World

FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=512, root_gb=1)
IMAGE = Image(id="5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11", name="i", status="active", disk_format="raw", size=0)
CONTROLLERS = {"conductor": ("conductor-a", "conductor-b"), "scheduler": ("scheduler-a", "scheduler-b")}


class Cloud:
    """`clients` repeat a create with the same UUID when its answer does not come, as the CLI does."""

    def __init__(self, seed: int, folder: Path, hosts: int) -> None:
        url = f"sqlite:///{folder}/minova.sqlite"
        schema.upgrade(url)
        self.world = World(seed, url)
        self.hosts = [f"host-{number}" for number in range(hosts)]
        self.folder = folder
        self.drivers: dict[str, FakeDriver] = {}
        self.db = self.world.database()
        for name in CONTROLLERS["conductor"]:
            self.world.start(name, ConductorApi, self._conductor)
        for name in CONTROLLERS["scheduler"]:
            self.world.start(name, SchedulerApi, self._scheduler)
        for host in self.hosts:
            self.drivers[host] = FakeDriver(self._conf(host))
            self.world.start(host, ComputeApi, self._compute)
        self.conductor: ConductorApi = self._client(ConductorApi, None, "conductor")

    def _conf(self, host: str) -> cfg.ConfigOpts:
        return configure(
            self.folder / host,
            host=host,
            fake_vcpus=2,
            fake_memory_mb=4096 + 512,
            fake_local_gb=20,
            conductor__build_timeout=200,
            # As rarely as these storms bear: most of what is tried here does not depend on it, and each look costs time.
            conductor__worker_lease=36,
            conductor__task_interval=5,
        )

    def _client(self, contract: Any, sender: Process | None, kind: str) -> Any:
        return self.world.client(contract, sender, lambda: list(CONTROLLERS.get(kind, (kind,))))

    def _conductor(self, process: Process) -> ConductorManager:
        return ConductorManager(
            self._conf(process.name),
            self.world.database(process),
            self._client(SchedulerApi, process, "scheduler"),
            lambda host: self._client(ComputeApi, process, host),
            host=process.name,
            clock=process.wall,
            ticks=lambda: self.world.now,
            spawn=self.world.spawn(process),
        )

    def _scheduler(self, process: Process) -> SchedulerManager:
        return SchedulerManager(
            self._conf(process.name),
            self.world.database(process),
            self._client(ConductorApi, process, "conductor"),
            host=process.name,
            clock=lambda: self.world.now,
            stopping=cast(threading.Event, Event(process)),
        )

    def _compute(self, process: Process) -> ComputeManager:
        return ComputeManager(
            self._conf(process.name),
            cast(Driver, MortalDriver(self.drivers[process.name], process)),
            self._client(ConductorApi, process, "conductor"),
            host=process.name,
            # Guests of the fake hypervisor have no disks.
            images=cast(Images, None),
            clock=process.wall,
            ticks=lambda: self.world.now,
            spawn=self.world.spawn(process),
            stopping=cast(threading.Event, Event(process)),
        )

    # -- what users do ---------------------------------------------------------------------------------------------

    def create(self, number: int, count: int, *, tries: int = 5) -> None:
        request = CreateServers(
            name=f"vm{number}",
            flavor=FLAVOR,
            image=IMAGE,
            min_count=count,
            max_count=count,
            request_uuid=f"00000000-0000-4000-8000-{number:012d}",
            body_hash=str(number),
        )
        try:
            self.conductor.create_servers(self._user(number), request=request)
        except errors.ServiceUnavailable:
            if tries:
                self.world.later(3.0, None, lambda: self.create(number, count, tries=tries - 1))

    def delete_one(self) -> None:
        """Any server, in whatever state; a user whose request fails leaves it at that."""
        with self.db.read() as session:
            alive = session.scalars(select(Instance.uuid).where(Instance.deleted_at.is_(None))).all()
        if alive:
            self.conductor.delete_server(self._user(0), instance_uuid=self.world.random.choice(sorted(alive)))

    def turn_one(self, state: PowerState) -> None:
        """Any guest goes into another state by itself."""
        guests = sorted((host, domain.uuid) for host in self.hosts for domain in self.drivers[host].domains())
        if guests:
            host, uuid = self.world.random.choice(guests)
            self.drivers[host].turn(uuid, state)

    @staticmethod
    def _user(number: int) -> RequestContext:
        return RequestContext(request_id=f"req-{number}", user_id="u", project_id="p")

    # -- what must be true -----------------------------------------------------------------------------------------

    def violations(self) -> list[str]:
        """Once quiet: no instance in transit, no overcommit, allocation = usage = domains, nothing without an owner."""
        found = list(self.world.errors)
        with self.db.read() as session:
            instances = session.scalars(select(Instance).where(Instance.deleted_at.is_(None))).all()
            found += [f"{i.uuid} in transit: {i.vm_state}/{i.task_state}" for i in instances if i.task_state]
            found += [
                f"{i.uuid} is {i.vm_state}" for i in instances if i.vm_state not in {"active", "stopped", "error"}
            ]
            found += [f"task left for {uuid}" for uuid in session.scalars(select(Task.instance_uuid))]
            active = {i.uuid: i.host for i in instances if i.vm_state == "active"}
            # Those that shut themselves down keep what they hold.
            holding = active | {i.uuid: i.host for i in instances if i.vm_state == "stopped"}
            takes = {i.uuid: resource_alternatives(i.flavor, i.numa_topology)[0] for i in instances}
            rows = session.execute(
                select(
                    Allocation.consumer_uuid, ResourceProvider.name, Allocation.resource_class, Allocation.used
                ).join(ResourceProvider, ResourceProvider.id == Allocation.provider_id)
            )
            allocated = {(uuid, name, kind, used) for uuid, name, kind, used in rows}
            wanted = {(uuid, host, kind, n) for uuid, host in holding.items() for kind, n in takes[uuid].items()}
            found += [f"allocation without instance: {a}" for a in sorted(allocated - wanted)]
            found += [f"instance without allocation: {a}" for a in sorted(wanted - allocated)]
            found += self._inventories(session)
            nodes = {n.host: n for n in session.scalars(select(ComputeNode))}
        for host in self.hosts:
            here = {uuid for uuid, on in active.items() if on == host}
            domains = {domain.uuid for domain in self.drivers[host].domains() if domain.power_state == 1}
            if domains != here:
                found.append(f"{host}: domains {sorted(domains)} != instances {sorted(here)}")
            held = sum(on == host for on in holding.values())
            if nodes[host].vcpus_used != held:
                found.append(f"{host}: vcpus_used {nodes[host].vcpus_used} != {held}")
        return found

    @staticmethod
    def _inventories(session: Any) -> list[str]:
        sums = {
            (p, c): n
            for p, c, n in session.execute(
                select(Allocation.provider_id, Allocation.resource_class, func.sum(Allocation.used)).group_by(
                    Allocation.provider_id, Allocation.resource_class
                )
            )
        }
        found = []
        for inventory in session.scalars(select(Inventory)):
            there = sums.get((inventory.provider_id, inventory.resource_class), 0)
            if inventory.used != there:
                found.append(
                    f"inventory {inventory.provider_id} {inventory.resource_class}: {inventory.used} != {there}"
                )
            if inventory.used > inventory.capacity:
                found.append(f"overcommit on {inventory.provider_id} {inventory.resource_class}")
        return found
