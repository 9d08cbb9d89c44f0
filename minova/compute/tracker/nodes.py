"""The ResourceTrackers of a host: one for each node of its driver, made on first use."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping

from oslo_config import cfg
from oslo_utils import units

from minova import errors
from minova.compute.accounting.audit import NodeSettings
from minova.compute.accounting.inventories import ConfiguredRatios, ReservedResources, require_capacity
from minova.compute.accounting.running_deleted import RunningDeleted
from minova.compute.conductor_retry import ConductorRetry
from minova.compute.tracker.monitors import Metrics, nothing_monitored
from minova.compute.tracker.node_writes import WriteOrder
from minova.compute.tracker.resource_tracker import ResourceTracker
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.unexpected.guest_record import GuestRecord
from minova.virt.driver import ComputeDriver

LOG = logging.getLogger(__name__)


def settings_from(conf: cfg.ConfigOpts, host: str) -> NodeSettings:
    """Returns the configured settings of the nodes of this host."""
    return NodeSettings(
        host=host,
        host_ip=str(conf.my_ip),
        reserved=ReservedResources(
            memory_mb=conf.reserved_host_memory_mb,
            disk_gb=-(-conf.reserved_host_disk_mb // units.Ki),
            vcpus=conf.reserved_host_cpus,
        ),
        ratios=ConfiguredRatios(
            cpu=conf.cpu_allocation_ratio,
            ram=conf.ram_allocation_ratio,
            disk=conf.disk_allocation_ratio,
            initial_cpu=conf.initial_cpu_allocation_ratio,
            initial_ram=conf.initial_ram_allocation_ratio,
            initial_disk=conf.initial_disk_allocation_ratio,
        ),
        packing=conf.compute.packing_host_numa_cells_allocation_strategy,
        running_deleted=running_deleted_from(conf),
    )


def running_deleted_from(conf: cfg.ConfigOpts) -> RunningDeleted:
    return RunningDeleted(
        action=conf.running_deleted_instance_action,
        timeout=conf.running_deleted_instance_timeout,
        looks=conf.running_deleted_instance_poll_interval > 0,
        interval=conf.running_deleted_instance_poll_interval,
    )


class Nodes:
    """Safe for threads. `records`: of the guests of the host."""

    def __init__(
        self,
        settings: NodeSettings,
        driver: ComputeDriver,
        conductor: ConductorApi,
        monitored: Callable[[str], Metrics] = nothing_monitored,
        repeat: ConductorRetry | None = None,
        records: Callable[[], Mapping[str, GuestRecord]] = dict,
    ) -> None:
        self._records = records
        self._settings = settings
        self._driver = driver
        self._conductor = conductor
        self._monitored = monitored
        self._repeat = repeat or ConductorRetry()
        self._trackers: dict[str, ResourceTracker] = {}
        # The orders outlive the trackers: the numbers of a process never start again.
        self._orders: dict[str, WriteOrder] = {}
        self._compute_id: str | None = None
        self._epoch = 0
        self._lock = threading.Lock()

    def require_capacity(self, settings: NodeSettings | None = None) -> None:
        """Raises InvalidConfiguration if more is reserved than a node has. Called at the start and before other
        settings apply.
        """
        for nodename in self._driver.available_nodes():
            require_capacity(self._driver.host_view(nodename), (settings or self._settings).reserved)

    def tracker(self, nodename: str) -> ResourceTracker:
        """Raises NotFound if the driver does not report this node."""
        with self._lock:
            tracker = self._trackers.get(nodename)
        if tracker is not None:
            return tracker
        available = self._driver.available_nodes()
        if nodename not in available:
            raise errors.NotFound(f"Node {nodename} is not one of host {self._settings.host}")
        with self._lock:
            order = self._orders.setdefault(nodename, WriteOrder())
            order.epoch = self._epoch
            new_tracker = ResourceTracker(
                self._settings,
                nodename,
                self._driver,
                self._conductor,
                self._monitored,
                self._repeat,
                order=order,
                # With several nodes, none of them can have the identity of the host.
                compute_id=self._compute_id if len(available) == 1 else None,
                records=self._records,
            )
            return self._trackers.setdefault(nodename, new_tracker)

    def registered(self, compute_id: str | None, epoch: int) -> None:
        """Record the host's identity, and the number of this process among the processes of the host."""
        with self._lock:
            self._compute_id, self._epoch = compute_id, epoch
            for order in self._orders.values():
                order.epoch = epoch

    def reconfigure(self, settings: NodeSettings) -> None:
        """Apply reserved amounts, ratios and so on from the next audits on. Raises as `require_capacity`; then all
        settings stay in force.
        """
        self.require_capacity(settings)
        with self._lock:
            self._settings = settings
        for tracker in self.trackers():
            tracker.reconfigure(settings)

    def trackers(self) -> tuple[ResourceTracker, ...]:
        """Returns the trackers in use."""
        with self._lock:
            return tuple(self._trackers.values())

    def release(self, ctx: RequestContext, instance_uuid: str) -> None:
        """Stop counting the instance on every node, tracked or orphan."""
        for tracker in self.trackers():
            tracker.release(ctx, instance_uuid)

    def forget(self, ctx: RequestContext, instance_uuid: str) -> None:
        """Stop counting a deleted instance, and what its move holds, on every node."""
        for tracker in self.trackers():
            tracker.forget(ctx, instance_uuid)

    def save(self, ctx: RequestContext) -> None:
        """Write the rows whose usage changed since they were written."""
        for tracker in self.trackers():
            tracker.save(ctx)

    def drop_vanished(self, ctx: RequestContext, available: Iterable[str], in_rows: Iterable[str]) -> None:
        """Delete nodes that the driver no longer reports: rows and providers through the conductor, then the trackers.

        Raises HostIdentityConflict if one of them holds something; then all of them stay.
        """
        remaining = set(available)
        with self._lock:
            vanished = (set(self._trackers) | set(in_rows)) - remaining
        if not vanished:
            return
        for nodename in sorted(vanished):
            LOG.info("Deleting orphan compute node %s of host %s", nodename, self._settings.host)
        self._conductor.delete_compute_nodes(ctx, host=self._settings.host, nodes=tuple(sorted(vanished)))
        with self._lock:
            for nodename in vanished:
                self._trackers.pop(nodename, None)
