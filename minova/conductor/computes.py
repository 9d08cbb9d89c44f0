"""What computes ask of their nodes and instances: the audit's two calls, and the calls around them."""

import logging
from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.casts import builds_of
from minova.conductor.worker import Worker
from minova.db import aggregates, compute_nodes, instances, moves, pci_devices, tasks
from minova.db.models import ComputeNode as NodeRow
from minova.db.models import Instance
from minova.objects.build import AuditInputs, HostInstances
from minova.objects.compute_node import ComputeNode, HypervisorView, Inventory
from minova.objects.states import RESOURCE_FREE, PowerState
from minova.placement import allocations, changes, inventories, provider_aggregates, providers, published_traits

LOG = logging.getLogger(__name__)

_HOLDS = (Instance.deleted_at.is_(None), Instance.vm_state.not_in([state.value for state in RESOURCE_FREE]))


class Computes:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    # -- what a host should have -----------------------------------------------------------------------------------

    def instances_of_host(self, host: str) -> HostInstances:
        with self._worker.db.read() as session:
            return HostInstances(
                instances=tuple(instances.load(session, Instance.host == host, *_HOLDS)),
                attempts=tuple(build.message for build in builds_of(session, tasks.builds_on(session, host))),
            )

    def begin_audit(self, host: str, view: HypervisorView) -> AuditInputs:
        nodename = view.hypervisor_hostname
        with self._worker.db.read() as session:
            row = compute_nodes.find(session, host, nodename)
            open_builds = tasks.builds_on(session, host, nodename)
            here = (Instance.host == host, Instance.node == nodename, *_HOLDS)
            moving = moves.in_progress_on(session, host, nodename)
            found = tuple(strays(session, host, [domain.uuid for domain in view.domains]))
            gone, at = instances.deleted_at(session, found), self._worker.at()
            return AuditInputs(
                node=compute_nodes.to_object(row, pci_devices.of_node(session, row.id)) if row is not None else None,
                instances=tuple(instances.load(session, *here)),
                migrations=moving,
                moved=tuple(instances.load(session, Instance.uuid.in_([one.instance_uuid for one in moving])))
                if moving
                else (),
                attempts=tuple(build.message for build in builds_of(session, open_builds)),
                strays=found,
                deleted={uuid: (at - since).total_seconds() for uuid, since in gone.items()},
                host_nodes=compute_nodes.names_of(session, host),
            )

    # -- nodes -----------------------------------------------------------------------------------------------------

    def finish_audit(self, node: ComputeNode, found: Sequence[Inventory], traits: Sequence[str]) -> ComputeNode:
        """Write node and inventories where they changed; free what instances held that are gone."""

        def work(session: Session) -> ComputeNode:
            at, now = self._worker.at(), self._worker.now()
            row, made = compute_nodes.ensure(session, node, at)
            if compute_nodes.write_if_changed(session, row, node, at) or made:
                changes.append(session, [row.id], now)
            providers.ensure(session, row.uuid, node.hypervisor_hostname)
            if made and (joined := aggregates.uuids_of_host(session, row.host)):
                provider_aggregates.join(session, [row.uuid], joined)
            # Consumers before inventories: the lock order of claims.
            self._free_gone(session, row)
            inventories.set_inventories(session, row.uuid, found)
            published_traits.publish(session, row.uuid, traits)
            return compute_nodes.to_object(row)

        return self._worker.run(work)

    def _free_gone(self, session: Session, row: NodeRow) -> None:
        # What others hold, by Placement's own API, is theirs.
        holders = allocations.consumers_of(session, row.uuid, "INSTANCE")
        gone = set(holders) - instances.existing(session, holders) - moves.known(session, holders)
        if gone:
            LOG.info("Freeing on node %s what instances held that are gone: %s", row.hypervisor_hostname, sorted(gone))
            allocations.release(session, gone, self._worker.now())

    def save_compute_node(self, node: ComputeNode) -> ComputeNode:
        """NotFound: the node has no row; an audit makes it."""

        def work(session: Session) -> ComputeNode:
            if not compute_nodes.write_usage(session, node, self._worker.at()):
                raise errors.NotFound(f"Compute node {node.hypervisor_hostname} of {node.host} could not be found.")
            row = compute_nodes.find(session, node.host, node.hypervisor_hostname)
            assert row is not None
            changes.append(session, [row.id], self._worker.now())
            return compute_nodes.to_object(row)

        return self._worker.run(work)

    def delete_compute_nodes(self, host: str, nodes: Sequence[str]) -> None:
        """Rows and providers go, with what was allocated there. What is not there is fine."""

        def work(session: Session) -> None:
            for nodename in nodes:
                row = compute_nodes.find(session, host, nodename, lock=True)
                if row is None:
                    continue
                LOG.info("Deleting orphan compute node %s of host %s", nodename, host)
                changes.append(session, [row.id], self._worker.now())
                allocations.release(session, allocations.consumers_of(session, row.uuid), self._worker.now())
                providers.delete(session, row.uuid)
                compute_nodes.remove(session, row)

        self._worker.run(work)

    # -- power states ----------------------------------------------------------------------------------------------

    def report_power_states(self, host: str, states: Mapping[str, int]) -> None:
        """Instances of other hosts, and states that do not exist, are left alone."""
        valid = {uuid: state for uuid, state in states.items() if state in [*PowerState]}
        if valid:
            self._worker.run(lambda session: instances.set_power_states(session, host, valid, self._worker.at()))


def strays(session: Session, host: str, domains: Sequence[str]) -> list[str]:
    """Of these domains of a host, those of instances that are deleted, on another host, or given up here.

    A domain that no row knows is none: it may be anybody's. Nor is one that is being moved from or to here.
    """
    there = instances.whereabouts(session, domains)
    waiting = tasks.hosts_of(session, there)
    moving = moves.in_progress_of(session, there)
    return [
        uuid
        for uuid in domains
        if uuid in there
        and there[uuid][0] != host
        and waiting.get(uuid, (None, None))[0] != host
        and not (uuid in moving and host in (moving[uuid].source_compute, moving[uuid].dest_compute))
    ]
