"""Audits every node of the host and acts on the findings."""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from minova import errors
from minova.compute.accounting.audit import AuditResult
from minova.compute.instances.attempts import End
from minova.compute.instances.background import Background
from minova.compute.instances.builds import Builder
from minova.compute.instances.power_states import PowerStates
from minova.compute.periodic.hardware_records import HardwareRecords
from minova.compute.tracker.nodes import Nodes
from minova.compute.tracker.resource_tracker import AuditedNode
from minova.context import RequestContext
from minova.objects.hosts.compute_node import DomainView
from minova.objects.hosts.node_audit import NodeAudit
from minova.objects.servers.states import VmState
from minova.service import FailureLog
from minova.virt.driver import ComputeDriver

LOG = logging.getLogger(__name__)

Outlived = tuple[tuple[DomainView, float], ...]


class Auditor:
    """`background` runs work that may wait for an instance's lock, and builds whose messages were lost.
    `ticks` is this host's monotonic clock.
    """

    def __init__(
        self,
        driver: ComputeDriver,
        nodes: Nodes,
        builder: Builder,
        power_states: PowerStates,
        hardware_records: HardwareRecords,
        *,
        background: Background,
        ticks: Callable[[], float],
    ) -> None:
        self._driver = driver
        self._nodes = nodes
        self._builder = builder
        self._power_states = power_states
        self._hardware_records = hardware_records
        self._background = background
        self._ticks = ticks
        # An error is logged once, not at each audit.
        self._finding_nodes = FailureLog("Finding nodes", "Resources cannot be updated")
        self._dropping_nodes = FailureLog("Deleting nodes that have vanished", "No node is deleted")
        self._audits: dict[str, FailureLog] = {}
        self._outlived: dict[str, Outlived] = {}
        self._purged: dict[str, tuple[DomainView, ...]] = {}
        self._purged_since: dict[str, float] = {}

    def update_available_resource(self, ctx: RequestContext) -> tuple[Exception, ...]:
        """Audit each node and return the failures. A failure is logged and does not stop the audits of other nodes."""
        try:
            available = self._driver.available_nodes()
        except errors.HypervisorError as error:
            self._finding_nodes.failed(error)
            return (error,)
        self._finding_nodes.worked()
        failures: list[Exception] = []
        in_rows: set[str] = set()
        for nodename in available:
            audit = self._audit_of(nodename)
            try:
                in_rows.update(self._audit(ctx, nodename, available).host_nodes)
                audit.worked()
            except (errors.ServiceUnavailable, errors.HypervisorError) as error:
                audit.failed(error)
                failures.append(error)
            except errors.HostIdentityConflict as error:
                audit.failed(error, level=logging.ERROR)
                failures.append(error)
            except Exception as error:  # noqa: BLE001  - it is logged, and no other node's
                audit.failed(error, exc_info=True)
                failures.append(error)
        self._outlived = {name: domains for name, domains in self._outlived.items() if name in available}
        try:
            self._nodes.drop_vanished(ctx, available, in_rows)
            self._dropping_nodes.worked()
        except errors.HostIdentityConflict as error:
            self._dropping_nodes.failed(error, level=logging.ERROR)
            failures.append(error)
        for instance_uuid in self._builder.domains.not_removed():
            self._background.run(
                ctx,
                ("left", instance_uuid),
                partial(self._builder.removals.remove_left, ctx, instance_uuid),
            )
        return tuple(failures)

    def has_reported(self, bridges: Mapping[str, str]) -> bool:
        """Whether the last audits sent exactly these bridges to the conductor. An audit reads the bridges itself, so
        what it sent may be older or newer than `bridges`.
        """
        return all(tracker.reported_bridges == bridges for tracker in self._nodes.trackers())

    def _audit_of(self, nodename: str) -> FailureLog:
        if nodename not in self._audits:
            self._audits[nodename] = FailureLog(
                f"The audit of node {nodename}", f"Error updating resources for node {nodename}"
            )
        return self._audits[nodename]

    def audit_node(self, ctx: RequestContext, nodename: str) -> NodeAudit:
        """Audit one node on request. Raises any error of the audit."""
        return self._audit(ctx, nodename).finding.record

    def outlived(self) -> Outlived:
        """Returns domains of deleted instances as the last audits found them, with the seconds for which the instances
        were deleted then.
        """
        return tuple(domain for of_node in list(self._outlived.values()) for domain in of_node)

    def purged(self) -> Outlived:
        """Returns domains of purged instances as the last audits found them, with the seconds for which this host has
        known each.
        """
        now = self._ticks()
        by_uuid = {domain.uuid: domain for of_node in list(self._purged.values()) for domain in of_node}
        self._purged_since = {uuid: self._purged_since.get(uuid, now) for uuid in by_uuid}
        return tuple((domain, now - self._purged_since[uuid]) for uuid, domain in by_uuid.items())

    def _audit(self, ctx: RequestContext, nodename: str, available: tuple[str, ...] = ()) -> AuditedNode:
        audited = self._nodes.tracker(nodename).update_available_resource(ctx, available)
        finding = audited.finding
        self._outlived[nodename] = finding.outlived
        self._purged[nodename] = finding.purged
        self._heal_attempts(ctx, nodename, finding)
        for domain in finding.unexpected_domains:
            self._background.run(
                ctx,
                (f"unexpected {domain.attempt}", domain.uuid),
                partial(self._builder.removals.remove_unexpected, ctx, domain.uuid, domain.attempt),
            )
        for instance_uuid, attempt in finding.evacuated.items():
            self._background.run(
                ctx,
                (f"evacuated {attempt}", instance_uuid),
                partial(self._builder.removals.remove_evacuated, ctx, instance_uuid, attempt),
            )
        self._power_states.compare(finding.power_states, self._driver.power_state)
        self.stop_domains(ctx, finding.to_stop)
        self._hardware_records.complete(ctx, audited.instances)
        return audited

    def stop_domains(self, ctx: RequestContext, domains: Iterable[tuple[DomainView, VmState]]) -> None:
        """Ask guests to shut down that run although their instances are stopped. Each is checked again just before it is
        asked.
        """
        for domain, vm_state in domains:
            LOG.debug("Instance %s is %s and its domain is not", domain.uuid, vm_state)
            self._background.run(
                ctx,
                ("stop", domain.uuid),
                partial(self._builder.removals.stop_again, ctx, domain),
            )

    def _heal_attempts(self, ctx: RequestContext, nodename: str, finding: AuditResult) -> None:
        """Begin builds whose cast was lost. Report the result again of builds whose report was lost."""
        attempts = self._builder.attempts
        attempts.forget_ended(nodename, {message.instance.uuid for message in finding.attempts})
        for message in finding.attempts:
            outcome = attempts.outcome(message.instance.uuid, message.attempt)
            if outcome is None:
                self._background.build(ctx, message)
            elif outcome.end in {End.SUCCEEDED, End.FAILED}:
                self._background.run(
                    ctx,
                    (f"report {message.attempt}", message.instance.uuid),
                    partial(self._builder.report, ctx, message),
                )
