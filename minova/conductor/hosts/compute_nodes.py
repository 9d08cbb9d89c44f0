"""Calls of computes about their nodes and instances: the audit's two calls, and the calls around them."""

import logging
from collections.abc import Callable, Mapping, Sequence

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.compute_messages import builds_of
from minova.conductor.hosts import guest_changes
from minova.conductor.hosts.audit_results import AuditResults
from minova.conductor.hosts.identity import require_nodes_stay, require_same_node
from minova.conductor.hosts.liveness import COMPUTE
from minova.conductor.hosts.service_removal import remove_node
from minova.conductor.hosts.unexpected_domains import judge
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.base import numbers
from minova.contracts.conductor.computes.audits import AuditsApi
from minova.db.catalogue import aggregates
from minova.db.hosts import compute_nodes, identity, services
from minova.db.models import ComputeNode as NodeRow
from minova.db.recovery import unexpected
from minova.db.servers import chosen_hardware, instances, migrations, pci_devices, tasks
from minova.messaging.rpc_access import own_host
from minova.objects.actions.guest_changes import LastAction
from minova.objects.hosts.compute_node import AvailableResources, ComputeNode, Inventory
from minova.objects.hosts.node_audit import NodeAudit
from minova.objects.hosts.service import OTHER_HOST
from minova.objects.servers.build import AuditInputs, HostInstances
from minova.objects.servers.chosen_hardware import ChosenHardware
from minova.objects.servers.instance import Instance
from minova.objects.unexpected.removal_rules import DomainVerdict, too_many
from minova.placement import changes
from minova.placement.allocations import claims
from minova.placement.audit import node_audit
from minova.placement.nodes import children, inventories
from minova.placement.nodes import traits as published_traits
from minova.placement.providers import aggregates as provider_aggregates
from minova.placement.providers import of_node as providers

LOG = logging.getLogger(__name__)

# The first versions that know providers below a node's own provider. Older services would offer the same devices at the
# node's provider again, not find the devices at all, or count the devices that instances have as missing.
_KNOW_CHILDREN = {"conductor": "1.6", "scheduler": "1.2"}


class ComputeNodes(AuditsApi):
    """`results`: gets what each audit found.
    `levels`: the version of each contract that every service serves, by topic, if it is known.
    `most_removals`: the most domains that one audit of a host may remove; 0: any number.
    `withheld`: traits that hosts report and this cloud does not offer.
    """

    def __init__(
        self,
        worker: TaskWorker,
        results: AuditResults,
        levels: Callable[[], Mapping[str, str]],
        most_removals: Callable[[], int] = lambda: 0,
        withheld: frozenset[str] = frozenset(),
    ) -> None:
        self._worker = worker
        self._results = results
        self._levels = levels
        self._most_removals_now = most_removals
        self._withheld = withheld

    # -- what a host should have -----------------------------------------------------------------------------------

    def instances_of_host(self, ctx: RequestContext, host: str) -> HostInstances:
        with self._worker.db.read() as session:
            service = services.find(session, host, COMPUTE)
            return HostInstances(
                fenced=service is not None and service.forced_down,
                instances=tuple(instances.holding(session, host)),
                attempts=tuple(build.message for build in builds_of(session, tasks.builds_on(session, host))),
                newer=tuple(sorted(unexpected.newer_on(session, host))),
            )

    def hosts_of_instances(self, ctx: RequestContext, instance_uuids: Sequence[str]) -> dict[str, str | None]:
        own = own_host(ctx.sender)
        with self._worker.db.read() as session:
            hosts_by_uuid = instances.row_hosts(session, instance_uuids)
        return {
            uuid: host if own in {None, host} or host is None else OTHER_HOST for uuid, host in hosts_by_uuid.items()
        }

    def begin_audit(self, ctx: RequestContext, host: str, view: AvailableResources) -> AuditInputs:
        name_hosts = own_host(ctx.sender) is None
        nodename = view.hypervisor_hostname
        with self._worker.db.read() as session:
            row = compute_nodes.find(session, host, nodename)
            if row is None:
                require_same_node(session, host, view)
            open_builds = tasks.builds_on(session, host, nodename)
            moving = migrations.in_progress_on(session, host, nodename)
            listed = unexpected.reasons_on(session, host)
            newer, misplaced = (
                listed.get(reason.value, set()) for reason in (DomainVerdict.NEWER, DomainVerdict.MISPLACED)
            )
            judged = judge(session, host, view.domains, newer, misplaced=misplaced)
            removable = judged.of(DomainVerdict.REMOVE)
            no_row = instances.without_row(
                session, host, _unheld(view, instance_uuids := tuple(instances.holding(session, host, nodename)))
            )
            purged = tuple(uuid for uuid, is_purged in no_row.items() if is_purged)
            withheld: tuple[str, ...] = ()
            if too_many(len({*removable, *purged}), self._most_removals_now()):
                withheld, removable, purged = tuple(sorted({*removable, *purged})), (), ()
            deleted = instances.deleted_for(session, removable, self._worker.now())
            suspects = node_audit.suspects(session, row.uuid, instance_uuids) if row is not None else None
            inputs = AuditInputs(
                node=None if row is None else _known_node(session, row),
                instances=instance_uuids,
                migrations=moving,
                moved=tuple(instances.by_uuids(session, [migration.instance_uuid for migration in moving]).values())
                if moving
                else (),
                attempts=tuple(build.message for build in builds_of(session, open_builds)),
                unexpected_domains=removable,
                deleted=deleted,
                host_nodes=compute_nodes.names_of(session, host),
                purged=purged,
                evacuated={
                    migration.instance_uuid: migration.attempt
                    for migration in migrations.evacuated_from(session, host)
                    if migration.cleanup_host == host and migration.source_node == nodename
                },
                newer=judged.of(DomainVerdict.NEWER),
                conflicts=tuple(
                    f"the domain of instance {uuid} bears the mark of this host, and the database has no record of it: it is left "
                    "as it is"
                    for uuid, is_purged in no_row.items()
                    if not is_purged
                )
                + tuple(
                    f"the domain of instance {uuid} is to be removed, with more others than [conductor] max_automatic_removals: run "
                    f"minova-manage unexpected remove {uuid}"
                    for uuid in withheld
                )
                + tuple(
                    f"the domain of instance {uuid} is here, but its row says {_place(judged.rows[uuid].host, name_hosts)}: both are left "
                    "as they are"
                    for uuid in sorted(judged.of(DomainVerdict.MISPLACED))
                )
                + tuple(
                    f"the domain of instance {uuid} is newer than its row: both are left as they are"
                    for uuid in sorted(judged.of(DomainVerdict.NEWER))
                ),
            )
        if suspects is None or inputs.node is None:
            return inputs
        return self._restored(inputs, inputs.node, suspects, view)

    def _restored(
        self, inputs: AuditInputs, node: ComputeNode, suspects: Sequence[str], view: AvailableResources
    ) -> AuditInputs:
        """Repairs the allocations of the suspects on the node. Returns the inputs with the repairs, and with what could
        not be repaired.
        """
        guests = {domain.uuid for domain in view.domains}
        done, unrestored = node_audit.restore(self._worker.run, self._worker.now(), node.uuid, suspects, guests)
        for drift in done:
            LOG.warning("Node %s: %s", node.hypervisor_hostname, drift)
        return msgspec.structs.replace(inputs, restored=done, conflicts=(*inputs.conflicts, *unrestored))

    # -- nodes -----------------------------------------------------------------------------------------------------

    def finish_audit(
        self,
        ctx: RequestContext,
        node: ComputeNode,
        inventories: Sequence[Inventory],
        traits: Sequence[str] = (),
        found: NodeAudit | None = None,
    ) -> ComputeNode:
        written = self._write_audit(node, inventories, traits)
        if found is not None:
            self._results.ended(written.id, found)
        return written

    def _write_audit(self, node: ComputeNode, inventories: Sequence[Inventory], traits: Sequence[str]) -> ComputeNode:
        """Write node and inventories if they changed; release what deleted instances still hold."""
        if len({inventory.resource_class for inventory in inventories}) < len(inventories):
            raise errors.BadRequest("finish_audit: two inventories of one resource class")
        split = self._all_know_children()

        def work(session: Session) -> ComputeNode:
            at, now = self._worker.at(), self._worker.now()
            row, is_new = compute_nodes.ensure(session, node, at)
            if compute_nodes.is_stale(row, node):
                LOG.info("Ignoring a late audit of node %s of host %s", node.hypervisor_hostname, node.host)
                return compute_nodes.to_object(row)
            if row.hypervisor_hostname != node.hypervisor_hostname:
                require_nodes_stay(session, node.host, [row.hypervisor_hostname], [node.hypervisor_hostname])
                row.hypervisor_hostname = node.hypervisor_hostname
            accepted = services.note_refused(session, node.host, None)
            changed = compute_nodes.write_if_changed(session, row, node, at) or is_new or accepted
            if changed:
                changes.append(session, [row.id], now)
            # An audit without changes writes nothing, unless an earlier write may still arrive.
            if changed or node.acknowledged != node.write_number - 1 or row.writer_epoch != node.writer_epoch:
                compute_nodes.note_write(session, row, node)
            root_id = providers.ensure(session, row.uuid, node.hypervisor_hostname)
            if is_new and (joined := aggregates.uuids_of_host(session, row.host)):
                provider_aggregates.join(session, [row.uuid], joined)
            # Consumers before inventories: the lock order of claims.
            self._free_gone(session, row)
            children.publish(session, (root_id, row.uuid), node.hypervisor_hostname, inventories, now, split=split)
            offered = [trait for trait in traits if trait not in self._withheld]
            published_traits.publish(session, row.uuid, offered, node.bridges)
            return compute_nodes.as_written(node, row)

        return self._worker.run(work)

    def _all_know_children(self) -> bool:
        levels = self._levels()
        return all(
            numbers(levels[topic]) >= numbers(first) for topic, first in _KNOW_CHILDREN.items() if topic in levels
        )

    def _free_gone(self, session: Session, row: NodeRow) -> None:
        # Allocations that other consumers made through Placement's own API are not touched.
        holders = node_audit.holders_gone(session, row.uuid)
        if holders:
            LOG.info("Freeing on node %s what instances held that are gone: %s", row.hypervisor_hostname, holders)
            claims.release(session, holders, self._worker.now())

    def save_compute_node(self, ctx: RequestContext, node: ComputeNode) -> ComputeNode:
        """A save that arrives after a later write changes nothing.

        Raises NotFound if the node has no row, which an audit makes.
        """

        def work(session: Session) -> ComputeNode:
            written = compute_nodes.write_usage(session, node, self._worker.at())
            row = None if written else compute_nodes.find(session, node.host, node.hypervisor_hostname)
            if row is not None:
                LOG.info("Ignoring a late save of node %s of host %s", node.hypervisor_hostname, node.host)
                return compute_nodes.to_object(row)
            key = compute_nodes.find_key(session, node.host, node.hypervisor_hostname)
            if key is None:
                raise errors.NotFound(f"Compute node {node.hypervisor_hostname} of {node.host} could not be found.")
            changes.append(session, [key.id], self._worker.now())
            return compute_nodes.as_written(node, key)

        return self._worker.run(work)

    def delete_compute_nodes(self, ctx: RequestContext, host: str, nodes: Sequence[str]) -> None:
        """Delete rows and providers, with the allocations there. A node that does not exist is no error.

        Raises HostIdentityConflict if one of them holds something; then all of them stay.
        """

        def work(session: Session) -> None:
            require_nodes_stay(session, host, nodes, set(identity.nodes_of(session, host)) - set(nodes))
            for nodename in nodes:
                remove_node(session, host, nodename, self._worker.now())

        self._worker.run(work)

    # -- chosen hardware -------------------------------------------------------------------------------------------

    def record_hardware(self, ctx: RequestContext, host: str, chosen: Mapping[str, ChosenHardware]) -> None:
        def work(session: Session) -> None:
            locked = instances.lock(session, chosen)
            idle = {
                uuid
                for uuid, instance in locked.items()
                if instance.host == host and not instance.deleted and instance.state[1] is None
            }
            chosen_hardware.record(session, {uuid: chosen[uuid] for uuid in idle}, self._worker.at())

        self._worker.run(work)

    # -- power states ----------------------------------------------------------------------------------------------

    def report_power_states(
        self,
        ctx: RequestContext,
        host: str,
        states: Mapping[str, int],
        reasons: Mapping[str, str] | None = None,
        after: Mapping[str, LastAction] | None = None,
    ) -> dict[str, LastAction] | None:
        """Changes instances as their guests have changed: see `guest_changes.py`. Instances of other hosts, instances with a
        task, and unknown states are ignored.
        """
        reported = guest_changes.guest_states(states, reasons or {})
        if not reported:
            return None if after is None else {}
        return self._worker.run(
            lambda session: guest_changes.follow(session, ctx, host, reported, after, self._worker.at())
        )


def _place(host: str | None, name_hosts: bool) -> str:
    if host is None:
        return "no host"
    return f"host {host}" if name_hosts else OTHER_HOST


def _unheld(view: AvailableResources, held: Sequence[Instance]) -> set[str]:
    """Returns the domains that are marked as this host's but that no row places there."""
    return {domain.uuid for domain in view.domains if domain.ours} - {instance.uuid for instance in held}


def _known_node(session: Session, row: NodeRow) -> ComputeNode:
    return inventories.with_ratios(session, compute_nodes.to_object(row, pci_devices.of_node(session, row.id)))
