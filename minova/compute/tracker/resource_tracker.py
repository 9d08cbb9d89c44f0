"""The usage of one hypervisor node. Claims and audits take one lock; the node's row is written through the
conductor.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from minova import errors, metrics
from minova.compute.accounting import node_usage as steps
from minova.compute.accounting import usage
from minova.compute.accounting.audit import AuditResult, NodeSettings, audit_node
from minova.compute.accounting.claim_test import Demand
from minova.compute.accounting.drift import drift_of, edited, with_own_devices
from minova.compute.accounting.migrations import side_of
from minova.compute.accounting.node_usage import NodeUsage, TrackedMigration
from minova.compute.accounting.orphans import with_records
from minova.compute.accounting.usage import TrackedInstance, usage_of
from minova.compute.conductor_retry import ConductorRetry
from minova.compute.tracker.claims import Claim, MoveClaim, NopClaim, check_claim
from minova.compute.tracker.monitors import Metrics, nothing_monitored
from minova.compute.tracker.node_writes import NodeWrite, WriteOrder
from minova.compute.tracker.resource_view import log_final_view, log_finding, log_hypervisor_view, validated
from minova.concurrency.batch_queue import BatchQueue, QueuedRequest, serve_together
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.hardware import pci_devices
from minova.objects.hosts.compute_node import AvailableResources, ComputeNode
from minova.objects.requests.request_spec import HostLimits
from minova.objects.servers.build import InstanceClaim, refusal
from minova.objects.servers.instance import Instance
from minova.objects.servers.migration import Migration
from minova.objects.servers.states import PowerState, TaskState, VmState, build_state
from minova.objects.unexpected.guest_record import GuestRecord
from minova.virt.driver import ComputeDriver

LOG = logging.getLogger(__name__)
T = TypeVar("T")
replace = msgspec.structs.replace

# The largest number of claims in one message.
MAX_TOGETHER = 64


class AuditedNode(NamedTuple):
    """The result of an audit, every node of this host that the database has, and the instances of this node."""

    finding: AuditResult
    host_nodes: tuple[str, ...]
    instances: tuple[Instance, ...]


class _ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A claim that waits for the lock."""

    ctx: RequestContext
    instance: Instance
    attempt: int
    limits: HostLimits
    step: TaskState = TaskState.BLOCK_DEVICE_MAPPING

    def as_message(self, claimed: Instance) -> InstanceClaim:
        return InstanceClaim(
            ctx=self.ctx,
            instance_uuid=claimed.uuid,
            attempt=self.attempt,
            numa_topology=claimed.numa_topology,
            step=_step_argument(self.step),
        )


class ResourceTracker:
    """The tracker of one node. Public methods that change the usage take the lock, so none of them calls another.

    `compute_id` is the uuid of a node that has no row yet; if it is None, the uuid is derived from the names of host
    and node. `records`: of the guests of the host.
    """

    def __init__(
        self,
        settings: NodeSettings,
        nodename: str,
        driver: ComputeDriver,
        conductor: ConductorApi,
        monitored: Callable[[str], Metrics] = nothing_monitored,
        repeat: ConductorRetry | None = None,
        *,
        order: WriteOrder | None = None,
        compute_id: str | None = None,
        records: Callable[[], Mapping[str, GuestRecord]] = dict,
    ) -> None:
        self._records = records
        self._order = order or WriteOrder()
        self._compute_id = compute_id
        self.nodename = nodename
        self._settings = settings
        self._driver = driver
        self._conductor = conductor
        self._monitored = monitored
        self._repeat = repeat or ConductorRetry()
        self._lock = threading.Lock()
        self._claims: BatchQueue[_ClaimRequest, Instance] = BatchQueue(self._serve_claims, MAX_TOGETHER)
        self._failed_builds = 0
        self._node_usage: NodeUsage | None = None
        self._saved: ComputeNode | None = None  # the row as last written; None if that is not known
        # The bridges as the last audit sent them, which determine the traits. None if the audit may not have arrived.
        self.reported_bridges: Mapping[str, str] | None = None

    @property
    def node(self) -> ComputeNode | None:
        """The node as it is tracked now; None before the first audit."""
        return self._node_usage.node if self._node_usage is not None else None

    def holds(self, instance_uuid: str) -> Instance | None:
        """Returns the instance as known here, or None if it holds no resources."""
        tracked = self._node_usage.instances.get(instance_uuid) if self._node_usage is not None else None
        return tracked.instance if tracked is not None else None

    def reconfigure(self, settings: NodeSettings) -> None:
        """Apply settings from the next claim or audit on. One in progress ends with the settings it began with."""
        with self._lock:
            self._settings = settings

    # -- the audit -------------------------------------------------------------------------------------------------

    def update_available_resource(self, ctx: RequestContext, host_nodes: tuple[str, ...] = ()) -> AuditedNode:
        """Compute the usage anew and write it, with two calls to the conductor. Holds the lock from before the first
        call.

        `host_nodes` are all nodes that the driver reports; empty if they are not known. Returns the finding, and every
        node of this host that the database has. The tracked usage is right even if the last write fails.
        """
        LOG.debug("Auditing locally available compute resources for node %s", self.nodename)
        host_view = validated(self._driver.host_view(self.nodename))
        view = replace(host_view, host_nodes=host_nodes, domains=with_records(host_view.domains, self._records()))
        log_hypervisor_view(view)
        with self._lock, metrics.timed(metrics.AUDIT_SECONDS):
            inputs = self._conductor.begin_audit(ctx, host=self._settings.host, view=view)
            finding = audit_node(
                view,
                with_own_devices(inputs, self._saved),
                self._settings,
                new_uuid=self._new_uuid,
                overhead=self._driver.overhead,
                failed_builds=self._failed_builds,
                metrics=self._monitored(self.nodename),
                records=self._records(),
                left_disks=self._left_disks(view),
            )
            before, written = self._node_usage, self._saved
            self._node_usage, self._saved, self.reported_bridges = finding.node_usage, None, None
            # Reserved amounts changed since then are the operator's decision, not drift.
            former_node = steps.with_reserved(before, finding.node_usage.reserved).node if before else inputs.node
            drift = drift_of(former_node, finding.node_usage.node)
            finding = replace(finding, drift=drift + edited(written, inputs.node, finding.node_usage.node))
            sent = self._order.stamped(finding.node_usage.node)
            row = self._conductor.finish_audit(
                ctx, node=sent, inventories=finding.inventories, traits=view.traits, found=finding.record
            )
            self._order.acknowledge(sent)
            self.reported_bridges = sent.bridges
            self._saved = replace(finding.node_usage.node, id=row.id, generation=row.generation)
            self._node_usage = replace(finding.node_usage, node=self._saved)
            log_final_view(self._saved)
        log_finding(self.nodename, finding, before)
        return AuditedNode(finding, inputs.host_nodes, inputs.instances)

    def _left_disks(self, view: AvailableResources) -> dict[str, int]:
        """Returns {uuid: GB} of disks of this host without a domain. Nodes of one host cannot be told apart by them."""
        if view.host_nodes and len(view.host_nodes) > 1:
            return {}
        return {disk.uuid: disk.disk_gb for disk in self._driver.left_disks({domain.uuid for domain in view.domains})}

    # -- claims ----------------------------------------------------------------------------------------------------

    def instance_claim(
        self,
        ctx: RequestContext,
        instance: Instance,
        attempt: int,
        limits: HostLimits,
        step: TaskState = TaskState.BLOCK_DEVICE_MAPPING,
    ) -> Claim:
        """Test against the limits and write the claim, under the lock. Claims that wait for the lock are written
        together.

        `step` is the instance's task_state from then on; an older conductor sets block_device_mapping.

        Raises ComputeResourcesUnavailable if the instance does not fit, StaleAttempt if this attempt no longer belongs
        to this host, ServiceUnavailable if no conductor answers. After each of these errors the usage is as before.
        """
        request = _ClaimRequest(ctx=ctx, instance=instance, attempt=attempt, limits=limits, step=step)
        if not self._driver.reports_resources:
            node = ComputeNode(uuid=self._new_uuid, host=self._settings.host, hypervisor_hostname=self.nodename)
            return NopClaim(self, ctx, self._write_claim(request, instance, node))
        return Claim(self, ctx, self._claims.ask(request))

    def _serve_claims(self, queued: Sequence[QueuedRequest[_ClaimRequest, Instance]]) -> None:
        with self._lock:
            serve_together(queued, self._claim_together, self._claim_alone)

    def _claim_alone(self, request: _ClaimRequest) -> Instance:
        after, claimed = self._with_claim(self._audited(), request)
        written = self._written(after.node, lambda node: self._write_claim(request, claimed, node))
        self._node_usage, self._saved = after, after.node
        return self._into_usage(written)

    def _claim_together(self, queued: Sequence[QueuedRequest[_ClaimRequest, Instance]]) -> None:
        """Serve all claims in one message, or none of them. If one does not fit, each is then served alone, so that
        only that one is refused, with its reason.
        """
        node_usage, claims = self._audited(), []
        try:
            for entry in queued:
                node_usage, claimed = self._with_claim(node_usage, entry.request)
                claims.append(entry.request.as_message(claimed))
        except errors.MinovaError:
            return
        write = lambda node: self._repeat(  # noqa: E731
            "claim_instances",
            lambda: self._conductor.claim_instances(queued[0].request.ctx, claims=tuple(claims), node=node),
        )
        try:
            answers = self._written(node_usage.node, write)
        except errors.PeerTooOld as error:
            LOG.debug("Claims are written one by one: %s", error)
            return
        self._node_usage, self._saved = node_usage, node_usage.node
        for entry, answer in zip(queued, answers, strict=True):
            refused = refusal(answer)
            if refused is None:
                assert answer.instance is not None
                entry.served(self._into_usage(answer.instance))
                continue
            # The row counts this instance; the next `save` writes the node without it.
            uuid = entry.request.instance.uuid
            self._node_usage = steps.with_freed(steps.without_instance(self._node_usage, uuid), uuid)
            entry.served(refused)

    def _write_claim(self, request: _ClaimRequest, claimed: Instance, node: ComputeNode) -> Instance:
        def write(step: str | None) -> Instance:
            return self._conductor.claim_instance(
                request.ctx,
                instance_uuid=claimed.uuid,
                attempt=request.attempt,
                node=node,
                numa_topology=claimed.numa_topology,
                step=step,
            )

        try:
            return self._repeat("claim_instance", lambda: write(_step_argument(request.step)))
        except errors.PeerTooOld:
            if _step_argument(request.step) is None:
                raise
            return self._repeat("claim_instance", lambda: write(None))

    def _into_usage(self, instance: Instance) -> Instance:
        """Put the instance as the conductor has written it, with its devices, into the usage, and return it."""
        assert self._node_usage is not None
        instance = replace(instance, pci_devices=pci_devices.owned_by(self._node_usage.node.pci_devices, instance.uuid))
        self._node_usage = steps.with_updated_instance(self._node_usage, instance)
        return instance

    def _with_claim(self, node_usage: NodeUsage, request: _ClaimRequest) -> tuple[NodeUsage, Instance]:
        """Returns the usage with the claim, and the claimed instance. Raises ComputeResourcesUnavailable if it does not
        fit.
        """
        instance = request.instance
        # A build that begins again after a restart is counted already: its new claim replaces the old one.
        free = steps.with_freed(steps.without_instance(node_usage, instance.uuid), instance.uuid)
        demand = Demand(
            usage=self._usage(instance),
            numa_topology=instance.numa_topology,
            pci_requests=instance.pci_requests,
        )
        fit = check_claim(free.node, instance.uuid, demand, request.limits, packing=self._settings.packing)
        if (instance.host or instance.node) and not instance.is_evacuated:
            LOG.warning(
                "Instance %s already has host %s and node %s when it is claimed",
                instance.uuid,
                instance.host,
                instance.node,
            )
        # As the conductor will write it with the claim, so that the node's row counts it right at once.
        vm_state, task_state = build_state(instance.vm_state, request.step)
        claimed = replace(
            instance,
            host=self._settings.host,
            node=self.nodename,
            vm_state=vm_state,
            task_state=task_state,
            numa_topology=fit.numa_topology,
        )
        tracked = TrackedInstance(instance=claimed, usage=replace(demand.usage, numa=fit.numa_topology))
        after = steps.with_instance(steps.with_claimed(free, instance.uuid, fit.devices), tracked)
        return steps.with_allocated(after, instance.uuid), claimed

    def move_claim(
        self, ctx: RequestContext, instance: Instance, migration: Migration, limits: HostLimits
    ) -> MoveClaim:
        """Hold the resources of the migration's new side: Nova's resize_claim, rebuild_claim and live_migration_claim.

        Raises as `instance_claim`; StaleAttempt if the migration is over or belongs to another host.
        """

        def write(claimed: Migration, node: ComputeNode) -> Migration:
            return self._repeat("claim_move", lambda: self._conductor.claim_move(ctx, migration=claimed, node=node))

        incoming = replace(migration, dest_compute=self._settings.host, dest_node=self.nodename)
        with self._lock:
            return MoveClaim(self, ctx, instance, self._claim_move(instance, incoming, limits, write))

    def _claim_move(
        self,
        instance: Instance,
        migration: Migration,
        limits: HostLimits,
        write: Callable[[Migration, ComputeNode], Migration],
    ) -> Migration:
        free = steps.without_migration(self._audited(), migration.uuid)
        free = steps.with_freed(free, instance.uuid, pci_devices.CLAIMED)
        side = side_of(migration, False, self._settings.host, self.nodename)
        assert side is not None
        demand = Demand(
            usage=replace(steps.tracked_migration(side, self._driver.overhead).usage, numa=None),
            numa_topology=migration.new_numa_topology,
            pci_requests=migration.new_pci_requests,
        )
        fit = check_claim(free.node, instance.uuid, demand, limits, packing=self._settings.packing)
        fitted = replace(migration, status="pre-migrating", new_numa_topology=fit.numa_topology)
        claimed = replace(side, migration=fitted, numa_topology=fit.numa_topology)
        tracked = TrackedMigration(side=claimed, usage=replace(demand.usage, numa=fit.numa_topology))
        after = steps.with_migration(steps.with_claimed(free, instance.uuid, fit.devices), tracked)
        written = self._written(after.node, lambda node: write(fitted, node))
        self._node_usage, self._saved = after, after.node
        return written

    def _written(self, node: ComputeNode, write: Callable[[ComputeNode], T]) -> T:
        stamped_node = self._order.stamped(node)
        try:
            written = write(stamped_node)
        except errors.ServiceUnavailable:
            self._saved = None  # it may have been written nevertheless
            raise
        self._order.acknowledge(stamped_node)
        return written

    def _audited(self) -> NodeUsage:
        if self._node_usage is None:
            raise errors.ComputeResourcesUnavailable(f"Node {self.nodename} has not been audited yet")
        return self._node_usage

    def _usage(self, instance: Instance) -> usage.Usage:
        return usage_of(instance.flavor, self._driver.overhead(instance.flavor))

    @property
    def _new_uuid(self) -> str:
        return self._compute_id or node_uuid(self._settings.host, self.nodename)

    # -- between audits --------------------------------------------------------------------------------------------

    def release(self, ctx: RequestContext, instance_uuid: str) -> None:
        """Stop counting the instance or orphan on this node. A row that cannot be written now is written later."""
        self._change(
            ctx, lambda node_usage: steps.with_freed(steps.without_instance(node_usage, instance_uuid), instance_uuid)
        )

    def forget(self, ctx: RequestContext, instance_uuid: str) -> None:
        """Stop counting a deleted instance, and what its move holds here. A row that cannot be written now is written later."""

        def change(node_usage: NodeUsage) -> NodeUsage:
            after = steps.with_freed(steps.without_instance(node_usage, instance_uuid), instance_uuid)
            for move in node_usage.migrations.values():
                if move.side.migration.instance_uuid == instance_uuid:
                    after = steps.without_migration(after, move.side.migration.uuid)
            return after

        self._change(ctx, change)

    def note_move(
        self, ctx: RequestContext, instance: Instance, migration: Migration, settled: Instance | None = None
    ) -> None:
        """Record a step or the end of a move: confirmed, reverted or failed. `instance` and `migration` are as the
        conductor has them now. `settled`: the instance as it will be once this host has reported.
        """
        place = (self._settings.host, self.nodename)

        def change(node_usage: NodeUsage) -> NodeUsage:
            after = steps.after_migration_step(node_usage, instance, migration, place, self._driver.overhead)
            return after if settled is None else steps.with_updated_instance(after, settled)

        self._change(ctx, change)

    def note(self, instance: Instance) -> None:
        """Record the new state of an instance held here. The next `save` writes the row."""
        with self._lock:
            if self._node_usage is not None:
                self._node_usage = steps.with_updated_instance(self._node_usage, instance)

    def node_write(self, active: Mapping[str, PowerState]) -> NodeWrite | None:
        """Returns the node as it will be once these instances are active, to be sent with the reports of success.
        Returns None if it has no row.

        The lock is not held until `succeeded` is called: a write that overtakes this one has a higher number.
        """
        with self._lock:
            node_usage = self._node_usage
            if node_usage is None or node_usage.node.id == 0:
                return None
            node = _with_active(node_usage, active).node
            return NodeWrite(node, self._order.stamped(node), self._saved)

    def succeeded(self, active: Mapping[str, PowerState], write: NodeWrite | None, *, written: bool) -> None:
        """Record that builds have succeeded and these instances are active. `written` is true if the conductor wrote
        all of them, and `write` with them.
        """
        with self._lock:
            if active:
                self._failed_builds = 0
            if self._node_usage is not None and active:
                self._node_usage = _with_active(self._node_usage, active)
            if write is None:
                return
            if not written:
                self._saved = None  # it may have been written nevertheless
                return
            self._order.acknowledge(write.sent)
            if write.saved is not None and self._saved is write.saved:
                self._saved = write.node

    def count_failed_build(self) -> None:
        """Count a failed build. The stats contain the number of builds failed in a row; a success resets it, as in
        Nova.
        """
        with self._lock:
            self._failed_builds += 1
            if self._node_usage is not None:
                node = usage.with_failed_builds(self._node_usage.node, self._failed_builds)
                self._node_usage = replace(self._node_usage, node=node)

    def save(self, ctx: RequestContext) -> None:
        """Write the row if it differs from what was written last."""
        with self._lock:
            self._save(ctx)

    def _change(self, ctx: RequestContext, change: Callable[[NodeUsage], NodeUsage]) -> None:
        with self._lock:
            before = self._node_usage
            if before is None:
                return
            self._node_usage = change(before)
            if self._node_usage == before:
                return
            try:
                self._save(ctx)
            except errors.MinovaError as error:
                LOG.log(errors.level_of(error), "Node %s is written later: %s", self.nodename, error)

    def _save(self, ctx: RequestContext) -> None:
        node = self.node
        if node is None or node.id == 0 or node == self._saved:
            return
        assert self._node_usage is not None
        self._saved = None
        try:
            stamped_node = self._order.stamped(node)
            row = self._conductor.save_compute_node(ctx, node=stamped_node)
            self._order.acknowledge(stamped_node)
        except errors.NotFound as error:
            LOG.warning("The next audit makes the row of node %s again: %s", self.nodename, error)
            self._node_usage = replace(self._node_usage, node=replace(node, id=0))
            return
        self._saved = replace(node, id=row.id, generation=row.generation)
        self._node_usage = replace(self._node_usage, node=self._saved)


def _step_argument(step: TaskState) -> str | None:
    """Returns None for the step with which claims of every release begin."""
    return None if step is TaskState.BLOCK_DEVICE_MAPPING else step.value


def _with_active(node_usage: NodeUsage, active: Mapping[str, PowerState]) -> NodeUsage:
    """Returns the usage after builds have made these instances active."""
    for instance_uuid, power_state in active.items():
        tracked = node_usage.instances.get(instance_uuid)
        if tracked is not None:
            node_usage = steps.with_updated_instance(
                node_usage,
                replace(tracked.instance, vm_state=_built(power_state), task_state=None, power_state=power_state),
            )
    return replace(node_usage, node=usage.with_failed_builds(node_usage.node, 0))


def _built(power_state: PowerState) -> VmState:
    """A build leaves a guest off only if its server was evacuated and is to be stopped."""
    return VmState.STOPPED if power_state is PowerState.SHUTDOWN else VmState.ACTIVE


def node_uuid(host: str, nodename: str) -> str:
    """Returns the UUID of a node without a row. It is the same each time, so that a first audit can be repeated."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"minova:compute_node:{host}:{nodename}"))
