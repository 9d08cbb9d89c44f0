"""Three nodes with cells, pinned CPUs, pages and devices, over the real conductor, scheduler and trackers, in one thread.

Moves begin as users request them, and the conductor drives them. The computes' part is played: the world claims with the real
tracker, reports each phase as done or failed, and moves the domains.
"""

import shutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec
from sqlalchemy import func, select

from minova import errors
from minova.cmd.compute import make_manager as make_compute_manager
from minova.cmd.conductor import make_manager
from minova.compute.accounting.audit import audit_node
from minova.compute.images.source import ImageSource
from minova.compute.manager import ComputeManager
from minova.compute.tracker.nodes import settings_from
from minova.conductor.moves.plan import host_of
from minova.context import RequestContext
from minova.db import models
from minova.db.engine import Database
from minova.db.servers import instances
from minova.objects.actions.moves import MoveRequest
from minova.objects.catalogue.flavor import Flavor, Overhead
from minova.objects.catalogue.image import Image
from minova.objects.hosts.compute_node import AvailableResources, ComputeNode
from minova.objects.hosts.numa import NUMACell, NUMAPages, NUMATopology
from minova.objects.hosts.pci import PciDevice
from minova.objects.requests.evacuation import EvacuationRequest
from minova.objects.requests.server_request import CreateServers
from minova.objects.servers.live_migration import GuestReport, GuestSide
from minova.objects.servers.migration import ENDED, Migration, MigrationType
from minova.objects.servers.moves import MoveMessage, MovePhase, PhaseResult
from minova.objects.servers.states import PowerState, VmState
from minova.scheduler.manager import SchedulerManager
from tests.cluster import configure
from tests.fakes.hypervisor import Hypervisor
from tests.fakes.running_conductor import running

CTX = RequestContext(request_id="req-1", user_id="alice", project_id="demo", is_admin=True)
IMAGE = Image(id="5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11", name="i", status="active", disk_format="raw", size=0)
ALIAS = '{"name": "nic", "vendor_id": "8086", "product_id": "154c", "device_type": "type-VF"}'
HOSTS = ("a", "b", "c")
_ACTIONS = {
    MigrationType.RESIZE: "resize",
    MigrationType.MIGRATION: "migrate",
    MigrationType.LIVE_MIGRATION: "live_migrate",
}
_SETTLES = {"confirmed": "confirm_resize", "reverted": "revert_resize"}
# The phases in which the destination claims.
_CLAIMS = frozenset({MovePhase.CLAIM, MovePhase.CHECK})
# After a doubt the guest is at its source.
_GUESTS = {
    MovePhase.LOOK: GuestReport(side=GuestSide.RUNNING),
    MovePhase.LOOK_THERE: GuestReport(side=GuestSide.ABSENT),
}
START = 1_700_000_000.0


def flavor(name: str, vcpus: int, memory_mb: int, **specs: str) -> Flavor:
    extra = {key.replace("__", ":").replace("_0_", "."): value for key, value in specs.items()}
    return Flavor(flavorid=name, name=name, vcpus=vcpus, memory_mb=memory_mb, root_gb=1, extra_specs=extra)


FLAVORS = (
    flavor("small", 1, 256),
    flavor("large", 3, 1024),
    flavor("pinned", 2, 512, hw__cpu_policy="dedicated"),
    flavor("isolated", 2, 512, hw__cpu_policy="dedicated", hw__emulator_threads_policy="isolate"),
    flavor("cells", 2, 512, hw__numa_nodes="2"),
    flavor("pages", 1, 512, hw__mem_page_size="2048"),
    flavor("device", 1, 256, pci_passthrough__alias="nic:1"),
    flavor("both", 2, 512, hw__cpu_policy="dedicated", pci_passthrough__alias="nic:1"),
)


class Machine(Hypervisor):
    """Two cells of four CPUs and 2 GiB, half of it in pages of 2 MiB; a network card with three virtual functions.

    Devices at the addresses in `gone` are not there now.
    """

    gone: frozenset[str] = frozenset()

    def host_view(self, node: str) -> AvailableResources:
        pages = (NUMAPages(size_kb=4, total=262144), NUMAPages(size_kb=2048, total=512))
        cells = tuple(
            NUMACell(
                id=number,
                cpuset=frozenset(range(4 * number, 4 * number + 4)),
                pcpuset=frozenset(range(4 * number, 4 * number + 4)),
                memory=2048,
                siblings=tuple(frozenset({cpu, cpu + 1}) for cpu in range(4 * number, 4 * number + 4, 2)),
                mempages=pages,
                socket=number,
            )
            for number in (0, 1)
        )
        card = "0000:0a:00.0"
        devices = [PciDevice(address=card, vendor_id="8086", product_id="1572", dev_type="type-PF", numa_node=0)]
        devices += [
            PciDevice(
                address=f"0000:0a:02.{number}",
                vendor_id="8086",
                product_id="154c",
                dev_type="type-VF",
                numa_node=0,
                parent_addr=card,
            )
            for number in range(3)
        ]
        view = super().host_view(node)
        present = tuple(device for device in devices if device.address not in self.gone)
        return msgspec.structs.replace(view, numa_topology=NUMATopology(cells), pci_devices=present)

    def overhead(self, flavor: Flavor) -> Overhead:
        return Overhead(vcpus=int(flavor.extra_specs.get("hw:emulator_threads_policy") == "isolate"))


@cache
def options_of(host: str, folder: Path) -> Any:
    """The same in every world: nothing of it is in files."""
    return configure(
        folder / host, host=host, pci__alias=[ALIAS], cpu_allocation_ratio=1.0, allow_resize_to_same_host=True
    )


class _Compute:
    """A compute as the conductor reaches it. What it is to do for a move is only noted."""

    def __init__(self, manager: ComputeManager, requested: dict[str, MoveMessage]) -> None:
        self._manager = manager
        self._requested = requested

    def run_move(self, ctx: RequestContext, *, move: MoveMessage) -> None:
        self._requested[move.instance.uuid] = move

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)


class World:
    """`now` is everybody's clock."""

    machine: type[Machine] = Machine

    def __init__(self, folder: Path, tables: Path) -> None:
        self.now = START
        self._tables = tables
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(tables, folder / "minova.sqlite")
        self.db = Database(f"sqlite:///{folder}/minova.sqlite", clock=lambda: self.now)
        self.waiting: list[Callable[[], None]] = []
        # The phase that the conductor has last asked for, by instance.
        self.requested: dict[str, MoveMessage] = {}
        self.machines = {host: self.machine(host, vcpus=8, memory_mb=4096 + 512, local_gb=50) for host in HOSTS}
        self.computes: dict[str, ComputeManager] = {}
        scheduler = SchedulerManager(self._conf("s"), self.db, None, host="s", clock=lambda: self.now)
        self.conductor = running(
            make_manager(
                self._conf("conductor"),
                self.db,
                cast(Any, scheduler),
                lambda host: cast(Any, _Compute(self.computes[host], self.requested)),
                host="conductor",
                clock=lambda: self.now,
                spawn=self.waiting.append,
            )
        )
        self.conductor.init_host()
        self.conductor.post_start_hook()
        self._requests = 0
        for host in HOSTS:
            self.start(host)

    def _conf(self, host: str) -> Any:
        return options_of(host, self._tables.parent)

    def start(self, host: str) -> None:
        """A compute begins, as after a crash: all it knew is gone, its domains are there."""
        self.computes[host] = make_compute_manager(
            self._conf(host),
            cast(Any, self.machines[host]),
            cast(Any, self.conductor),
            host=host,
            images=cast(ImageSource, None),
            clock=lambda: self.now,
            spawn=self.waiting.append,
        )
        self.computes[host].init_host()
        self.computes[host].pre_start_hook()
        self.settle()

    def settle(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()

    def close(self) -> None:
        self.db.close()

    # -- what people do --------------------------------------------------------------------------------------------

    def boot(self, wanted: Flavor) -> str:
        request = CreateServers(name="vm", flavor=wanted, image=IMAGE, min_count=1, max_count=1)
        (uuid,) = self.conductor.create_servers(CTX, request=request).instance_uuids
        self.settle()
        return uuid

    def delete(self, uuid: str) -> None:
        self.conductor.delete_server(CTX, instance_uuid=uuid)
        self.settle()

    def tick(self) -> None:
        """Time passes, and every service does its periodic work."""
        self.now += 20.0
        for host in HOSTS:
            self.computes[host].heartbeat()
        for task in self.conductor.periodic_tasks():
            task.work()
        self.settle()

    # -- moves -----------------------------------------------------------------------------------------------------

    @property
    def moves(self) -> dict[str, Migration]:
        """By instance, the migrations that have not ended."""
        with self.db.read() as session:
            rows = session.scalars(select(models.Migration.value).order_by(models.Migration.id)).all()
        return {row.instance_uuid: row for row in rows if row.status not in ENDED}

    def move(self, uuid: str, kind: MigrationType, dest: str, wanted: Flavor) -> bool:
        """Begin one and let the destination claim. False: it is not idle, or there is no room."""
        if kind is MigrationType.EVACUATION:
            return self._evacuate(uuid, dest)
        try:
            self.begin(uuid, kind, dest, wanted)
        except (errors.Conflict, errors.NotFound, errors.BadRequest):
            return False
        while uuid in self.requested and self.requested[uuid].phase not in _CLAIMS:
            self._end_phase(uuid)
        if uuid not in self.requested:
            return False
        message = self.requested[uuid]
        try:
            self.tracker(dest).move_claim(CTX, message.instance, message.migration, message.limits)
        except errors.ComputeResourcesUnavailable:
            self.step(uuid, "error")
            return False
        return True

    def begin(self, uuid: str, kind: MigrationType, dest: str, wanted: Flavor) -> None:
        """Raises as `start_action`."""
        flavor = wanted if kind is MigrationType.RESIZE else None
        self._act(uuid, _ACTIONS[kind], **msgspec.to_builtins(MoveRequest(flavor=flavor, host=dest, force=True)))
        self._note(uuid)

    def _evacuate(self, uuid: str, dest: str) -> bool:
        """The host is forced down, its server is built again, and the host is back."""
        (row,) = (row for row in self.instances() if row.uuid == uuid)
        source = str(row.host)
        self._force(source, down=True)
        self._requests += 1
        ctx = msgspec.structs.replace(CTX, request_id=f"req-world-{self._requests}")
        try:
            self.conductor.evacuate_server(
                ctx, instance_uuid=uuid, request=EvacuationRequest(host=dest, force=True), override_lock=True
            )
            self.settle()
        except (errors.Conflict, errors.BadRequest):
            return False
        finally:
            self.computes[source].update_available_resource()
            self.settle()
            self._force(source, down=False)
        (row,) = (row for row in self.instances() if row.uuid == uuid)
        return row.host == dest

    def _force(self, host: str, *, down: bool) -> None:
        with self.db.read() as session:
            query = select(models.Service.uuid).where(
                models.Service.host == host, models.Service.binary == "minova-compute"
            )
            service = str(session.scalar(query))
        self.conductor.update_service(CTX, service_uuid=service, forced_down=down)

    def _act(self, uuid: str, kind: str, **arguments: Any) -> None:
        self._requests += 1
        ctx = msgspec.structs.replace(CTX, request_id=f"req-world-{self._requests}")
        self.conductor.start_action(ctx, instance_uuid=uuid, action=kind, arguments=arguments)
        self.settle()

    def step(self, uuid: str, status: str) -> None:
        """The move goes on; its domain goes where its instance goes. `done`: an evacuation has ended with `move`."""
        if status == "done":
            return
        if status in _SETTLES:
            self._act(uuid, _SETTLES[status])
        elif status == "error":
            self._end_phase(uuid, failure="no")
        while uuid in self.requested and self.migration(uuid).status != status:
            self._end_phase(uuid)
        if status in ENDED:
            while uuid in self.requested:
                self._end_phase(uuid)
        (row,) = (row for row in self.instances() if row.uuid == uuid)
        migration = self.migration(uuid)
        for host, machine in self.machines.items():
            if row.host == host:
                machine.add_domain(uuid, host, row.flavor.memory_mb, attempt=row.attempt)
            elif host in (migration.source_compute, migration.dest_compute):
                machine.destroy(uuid)

    def migration(self, uuid: str) -> Migration:
        """The last one of the instance."""
        with self.db.read() as session:
            query = select(models.Migration.value).where(models.Migration.instance_uuid == uuid)
            migration = session.scalars(query.order_by(models.Migration.id.desc())).first()
        assert migration is not None
        return migration

    def _end_phase(self, uuid: str, failure: str | None = None) -> None:
        """The host of the phase that was asked for reports its end."""
        message = self.requested.pop(uuid)
        off = message.migration.old_vm_state is VmState.STOPPED
        result = PhaseResult(
            power_state=PowerState.SHUTDOWN if off else PowerState.RUNNING,
            guest=_GUESTS.get(message.phase),
            failure=failure,
            kind="HypervisorError" if failure else "",
        )
        host = str(host_of(message.phase, message.migration))
        self.conductor.phase_ended(CTX, phase=message.phase_key, host=host, result=result)
        self.settle()
        self._note(uuid)

    def _note(self, uuid: str) -> None:
        """Both hosts learn how far the move is."""
        with self.db.read() as session:
            (instance,) = instances.load(session, models.Instance.uuid == uuid)
        migration = self.migration(uuid)
        for side in {migration.source_compute, migration.dest_compute} - {None}:
            self.tracker(str(side)).note_move(CTX, instance, migration)

    def tracker(self, host: str) -> Any:
        return self.computes[host]._nodes.tracker(host)

    # -- what must be true -----------------------------------------------------------------------------------------

    def violations(self) -> list[str]:
        """incremental usage = audited usage = the node's row = the sum over rows = allocations; nothing twice."""
        faults: list[str] = []
        for host in HOSTS:
            kept = self.tracker(host).node
            self.computes[host]._nodes.save(CTX)
            audited, row = self._audited(host)
            faults += differences(f"{host}: kept, audited", kept, audited)
            faults += differences(f"{host}: kept, row", kept, row)
            faults += self._sums(host, kept)
            faults += pinned_twice(host, kept)
        return faults

    def _audited(self, host: str) -> tuple[ComputeNode, ComputeNode]:
        """As an audit would find it now, and as its row is."""
        view = self.machines[host].host_view(host)
        inputs = self.conductor.begin_audit(CTX, host=host, view=view)
        settings = settings_from(self._conf(host), host)
        finding = audit_node(
            view,
            inputs,
            settings,
            new_uuid="new",
            overhead=self.machines[host].overhead,
            failed_builds=self.tracker(host)._failed_builds,
        )
        assert not finding.conflicts
        assert inputs.node is not None
        return finding.node_usage.node, inputs.node

    def _sums(self, host: str, kept: ComputeNode) -> list[str]:
        """By the plainest rule that can be written down: who is here, and which side of which move."""
        held = [row.flavor for row in self.instances() if row.host == host]
        for row in self.instances():
            migration = self.moves.get(row.uuid)
            if migration is not None and migration.status != "accepted":
                held += [side for side, on in _sides(migration, row.host) if on == host]
        violations = []
        extra = sum(self.machines[host].overhead(held_flavor)[2] for held_flavor in held)
        sums = {
            "vcpus_used": sum(held_flavor.vcpus for held_flavor in held) + extra,
            "memory_mb_used": 512 + sum(held_flavor.memory_mb for held_flavor in held),
            "local_gb_used": sum(held_flavor.disk_gb for held_flavor in held),
        }
        for name, expected in sums.items():
            if getattr(kept, name) != expected:
                violations.append(f"{host}: {name} is {getattr(kept, name)}, the rows say {expected}")
        allocated = self._allocated(kept.uuid)
        usage = {"VCPU": kept.vcpus_used - extra, "MEMORY_MB": kept.memory_mb_used - 512, "DISK_GB": kept.local_gb_used}
        if allocated != {name: amount for name, amount in usage.items() if amount}:
            violations.append(f"{host}: allocated {allocated}, used {usage}")
        return violations

    def instances(self) -> Sequence[models.Instance]:
        with self.db.read() as session:
            query = select(models.Instance).where(models.Instance.deleted_at.is_(None))
            return session.scalars(query.order_by(models.Instance.id)).all()

    def _allocated(self, provider_uuid: str) -> dict[str, int]:
        model, provider = models.Allocation, models.ResourceProvider
        query = (
            select(model.resource_class, func.sum(model.used))
            .join(provider, provider.id == model.provider_id)
            .where(provider.uuid == provider_uuid)
            .group_by(model.resource_class)
        )
        with self.db.read() as session:
            return {row[0]: int(row[1]) for row in session.execute(query)}


def beyond(wanted: Flavor, other: Flavor) -> Flavor:
    """What one size takes more than another: the node holds the larger of both sizes of a server that stays on it."""
    more = {name: max(0, getattr(wanted, name) - getattr(other, name)) for name in ("vcpus", "memory_mb", "root_gb")}
    return msgspec.structs.replace(wanted, **more)


def _sides(migration: Migration, host: str | None) -> list[tuple[Flavor, str | None]]:
    """What the move holds beside the instance, and where."""
    if migration.source_compute == migration.dest_compute:
        side, other = migration.new_flavor, migration.old_flavor
        if migration.switched:
            side, other = other, side
        return [(beyond(side, other) if migration.counts_larger else side, migration.dest_compute)]
    sides: list[tuple[Flavor, str | None]] = []
    if host != migration.dest_compute:
        sides.append((migration.new_flavor, migration.dest_compute))
    if host != migration.source_compute:
        sides.append((migration.old_flavor, migration.source_compute))
    return sides


def differences(what: str, one: ComputeNode, other: ComputeNode) -> list[str]:
    ignored = {"id", "generation", "uuid"}
    return [
        f"{what}: {name} {getattr(one, name)} != {getattr(other, name)}"
        for name in one.__struct_fields__
        if name not in ignored and getattr(one, name) != getattr(other, name)
    ]


def pinned_twice(host: str, node: ComputeNode) -> list[str]:
    """Pages and CPUs of a cell, devices with more than one owner among relatives."""
    violations = []
    assert node.numa_topology is not None
    for cell in node.numa_topology.cells:
        if not cell.pinned_cpus <= cell.pcpuset:
            violations.append(f"{host}: pinned {sorted(cell.pinned_cpus)}")
        # Guests that ask for no page size are counted in the smallest, and may overcommit it.
        violations += [f"{host}: {pages}" for pages in cell.mempages[1:] if not 0 <= pages.used <= pages.total]
        if cell.memory_usage < 0 or cell.cpu_usage < 0:
            violations.append(f"{host}: cell {cell.id} is negative")
    owners = {device.address: device.instance_uuid for device in node.pci_devices}
    card = owners.get("0000:0a:00.0")
    if card is not None and any(owner for address, owner in owners.items() if address != "0000:0a:00.0"):
        violations.append(f"{host}: the card and its functions are both taken")
    return violations
