"""The books of one hypervisor node: claims and audits under one lock, the node's row written through the conductor."""

import logging
import threading
import uuid
from types import TracebackType
from typing import Self

import msgspec

from minova import errors, metrics
from minova.compute import usage
from minova.compute.audit import Finding, NodeSettings, fold
from minova.compute.claims import checks_of, reasons_against
from minova.compute.repeat import repeated
from minova.compute.usage import Held, usage_of
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.compute_node import ComputeNode, HypervisorView
from minova.objects.instance import Instance
from minova.objects.request_spec import HostLimits
from minova.objects.states import TaskState, VmState
from minova.virt.driver import Driver

LOG = logging.getLogger(__name__)


class Claim:
    """Resources held for an instance; leaving the `with` by an exception gives them back."""

    def __init__(self, tracker: "ResourceTracker", ctx: RequestContext, instance: Instance) -> None:
        self.instance = instance
        self._tracker = tracker
        self._ctx = ctx

    def abort(self) -> None:
        LOG.debug("Aborting claim of instance %s", self.instance.uuid)
        self._tracker.release(self._ctx, self.instance.uuid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.abort()


class NopClaim(Claim):
    """With a driver that reports no resources nothing is held."""

    def abort(self) -> None:
        pass


class ResourceTracker:
    """One node's. Methods that change the books take the lock, and none of them is called from within another."""

    def __init__(self, settings: NodeSettings, nodename: str, driver: Driver, conductor: ConductorApi) -> None:
        self.nodename = nodename
        self._settings = settings
        self._driver = driver
        self._conductor = conductor
        self._lock = threading.Lock()
        self._held: dict[str, Held] = {}
        self._orphans: dict[str, int] = {}
        self._failed_builds = 0
        self._node: ComputeNode | None = None
        self._saved: ComputeNode | None = None  # the row as last written; None when that is not known

    @property
    def node(self) -> ComputeNode | None:
        """The node as it is kept now; nothing before the first audit."""
        return self._node

    def holds(self, instance_uuid: str) -> Instance | None:
        """The instance as known here, if it holds resources."""
        held = self._held.get(instance_uuid)
        return held.instance if held is not None else None

    # -- the audit -------------------------------------------------------------------------------------------------

    def update_available_resource(self, ctx: RequestContext) -> tuple[Finding, tuple[str, ...]]:
        """Compute the usage anew and write it: two calls to the conductor, the lock held from before the first.

        Answers what was found, and every node that the database has of this host. The books are right even when
        the last write fails.
        """
        LOG.debug("Auditing locally available compute resources for node %s", self.nodename)
        view = checked(self._driver.host_view(self.nodename))
        log_hypervisor_view(view)
        with self._lock, metrics.timed(metrics.AUDIT_SECONDS):
            inputs = self._conductor.begin_audit(ctx, host=self._settings.host, view=view)
            finding = fold(
                view,
                inputs,
                self._settings,
                new_uuid=node_uuid(self._settings.host, self.nodename),
                overhead=self._driver.overhead,
                failed_builds=self._failed_builds,
            )
            new_orphans = finding.orphans.keys() - self._orphans.keys()
            self._held, self._orphans = dict(finding.held), dict(finding.orphans)
            self._node, self._saved = finding.node, None
            row = self._conductor.finish_audit(ctx, node=finding.node, inventories=finding.inventories)
            self._node = self._saved = msgspec.structs.replace(finding.node, id=row.id, generation=row.generation)
            log_final_view(self._node)
        for orphan in sorted(new_orphans):
            LOG.warning(
                "Domain %s on node %s holds %d MB for no instance of this host",
                orphan,
                self.nodename,
                finding.orphans[orphan],
            )
        return finding, inputs.host_nodes

    # -- claims ----------------------------------------------------------------------------------------------------

    def instance_claim(self, ctx: RequestContext, instance: Instance, attempt: int, limits: HostLimits) -> Claim:
        """Test against the limits and write the claim, under the lock.

        ComputeResourcesUnavailable: it does not fit. StaleAttempt: this attempt is no longer this host's.
        ServiceUnavailable: no conductor answers. After each of them the books are as they were.
        """
        if not self._driver.reports_resources:
            node = ComputeNode(
                uuid=node_uuid(self._settings.host, self.nodename),
                host=self._settings.host,
                hypervisor_hostname=self.nodename,
            )
            return NopClaim(self, ctx, self._write_claim(ctx, instance, attempt, node))
        with self._lock:
            return Claim(self, ctx, self._claim(ctx, instance, attempt, limits))

    def _claim(self, ctx: RequestContext, instance: Instance, attempt: int, limits: HostLimits) -> Instance:
        if self._node is None:
            raise errors.ComputeResourcesUnavailable(f"Node {self.nodename} has not been audited yet")
        wanted = self._wanted(instance)
        node = self._node_without(instance)
        self._test(node, wanted, limits)
        if instance.host or instance.node:
            LOG.warning(
                "Instance %s already has host %s and node %s when it is claimed",
                instance.uuid,
                instance.host,
                instance.node,
            )
        after = usage.with_added(node, wanted)
        try:
            claimed = self._write_claim(ctx, instance, attempt, after)
        except errors.ServiceUnavailable:
            self._saved = None  # it may have been written all the same
            raise
        held = Held(instance=claimed, usage=wanted.usage)
        self._held[instance.uuid] = held
        self._orphans.pop(instance.uuid, None)
        self._saved = after
        self._node = usage.with_added(node, held)
        return claimed

    def _wanted(self, instance: Instance) -> Held:
        """The instance as the conductor will make it with the claim, so that its row is counted right at once."""
        claimed = msgspec.structs.replace(
            instance,
            host=self._settings.host,
            node=self.nodename,
            vm_state=VmState.BUILDING,
            task_state=TaskState.BLOCK_DEVICE_MAPPING,
        )
        return Held(instance=claimed, usage=usage_of(instance.flavor, self._driver.overhead(instance.flavor)))

    def _node_without(self, instance: Instance) -> ComputeNode:
        """A build begun again after a restart is in the books already: its claim takes that one's place."""
        assert self._node is not None
        node = self._node
        held = self._held.get(instance.uuid)
        if held is not None:
            node = usage.with_removed(node, held)
        return usage.with_memory(node, -self._orphans.get(instance.uuid, 0))

    def _test(self, node: ComputeNode, wanted: Held, limits: HostLimits) -> None:
        # oslo.log puts it before the message, as in Nova's log.
        of_instance = {"instance_uuid": wanted.instance.uuid}
        LOG.info(
            "Attempting claim: memory %d MB, disk %d GB, vcpus %d CPU",
            wanted.usage.memory_mb,
            wanted.usage.disk_gb,
            wanted.usage.vcpus,
            extra=of_instance,
        )
        checks = checks_of(node, wanted.usage, limits)
        for check in checks:
            for line in check.lines():
                LOG.info(line, extra=of_instance)
        reasons = reasons_against(checks)
        for check in checks:
            if check.reason is not None:
                metrics.CLAIMS.labels("refused", check.kind).inc()
        if reasons is not None:
            raise errors.ComputeResourcesUnavailable(f"Insufficient compute resources: {reasons}")
        metrics.CLAIMS.labels("granted", "").inc()
        LOG.info("Claim successful on node %s", self.nodename, extra=of_instance)

    def _write_claim(self, ctx: RequestContext, instance: Instance, attempt: int, node: ComputeNode) -> Instance:
        return repeated(
            "claim_instance",
            lambda: self._conductor.claim_instance(ctx, instance_uuid=instance.uuid, attempt=attempt, node=node),
        )

    # -- between audits --------------------------------------------------------------------------------------------

    def release(self, ctx: RequestContext, instance_uuid: str) -> None:
        """The instance or orphan holds nothing here any more. A row that cannot be written now is written later."""
        with self._lock:
            held = self._held.pop(instance_uuid, None)
            memory_mb = self._orphans.pop(instance_uuid, 0)
            if self._node is None or (held is None and not memory_mb):
                return
            if held is not None:
                self._node = usage.with_removed(self._node, held)
            self._node = usage.with_memory(self._node, -memory_mb)
            try:
                self._save(ctx)
            except errors.MinovaError as error:
                LOG.warning("Node %s is written later: %s", self.nodename, error)

    def note(self, instance: Instance) -> None:
        """A held instance changed its state. The row follows with the next `save`."""
        with self._lock:
            held = self._held.get(instance.uuid)
            if held is None or self._node is None:
                return
            changed = Held(instance=instance, usage=held.usage)
            self._held[instance.uuid] = changed
            self._node = usage.with_added(usage.with_removed(self._node, held), changed)

    def count_build(self, succeeded: bool) -> None:
        """Builds failed in a row are in the stats; a success begins anew, as in Nova."""
        with self._lock:
            self._failed_builds = 0 if succeeded else self._failed_builds + 1
            if self._node is not None:
                self._node = usage.with_failed_builds(self._node, self._failed_builds)

    def save(self, ctx: RequestContext) -> None:
        """Write the row if it differs from what was written last."""
        with self._lock:
            self._save(ctx)

    def _save(self, ctx: RequestContext) -> None:
        node = self._node
        if node is None or node.id == 0 or node == self._saved:
            return
        self._saved = None
        try:
            row = self._conductor.save_compute_node(ctx, node=node)
        except errors.NotFound as error:
            LOG.warning("The next audit makes the row of node %s again: %s", self.nodename, error)
            self._node = msgspec.structs.replace(node, id=0)
            return
        self._node = self._saved = msgspec.structs.replace(node, id=row.id, generation=row.generation)


def node_uuid(host: str, nodename: str) -> str:
    """The UUID of a node without a row: the same each time, so that a first audit may be repeated."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"minova:compute_node:{host}:{nodename}"))


def checked(view: HypervisorView) -> HypervisorView:
    """What the driver reports, with every field of its type. ValueError names the field that is not."""
    try:
        return msgspec.convert(msgspec.to_builtins(view), HypervisorView)
    except msgspec.ValidationError as error:
        raise ValueError(f"The driver's view of node {view.node}: {error}") from None


def log_hypervisor_view(view: HypervisorView) -> None:
    LOG.debug(
        "Hypervisor resource view: name=%s free_ram=%dMB free_disk=%dGB free_vcpus=%d domains=%d",
        view.hypervisor_hostname,
        view.memory_mb - view.memory_mb_used,
        view.local_gb - view.local_gb_used,
        view.vcpus,
        len(view.domains),
    )


def log_final_view(node: ComputeNode) -> None:
    LOG.info(
        "Final resource view: name=%s phys_ram=%dMB used_ram=%dMB phys_disk=%dGB used_disk=%dGB "
        "total_vcpus=%d used_vcpus=%d stats=%s",
        node.hypervisor_hostname,
        node.memory_mb,
        node.memory_mb_used,
        node.local_gb,
        node.local_gb_used,
        node.vcpus,
        node.vcpus_used,
        node.stats,
    )
