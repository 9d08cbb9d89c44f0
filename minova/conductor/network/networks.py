"""Networks: made, changed and deleted, each in one transaction."""

from collections import Counter

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.network.interface_notifier import InterfaceNotifier
from minova.conductor.network.local_ranges import LocalRanges
from minova.conductor.network.revisions import changed, require_revision
from minova.conductor.quotas import Quotas
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.api.networks import NetworksApi
from minova.db.engine import when_committed
from minova.db.models import Network as NetworkRow
from minova.db.networks import networks as rows
from minova.db.networks import subnets as subnet_rows
from minova.db.quotas import give
from minova.objects.network.network import Network


class Networks(NetworksApi):
    def __init__(self, worker: TaskWorker, quotas: Quotas, ranges: LocalRanges, hints: InterfaceNotifier) -> None:
        self._worker = worker
        self._quotas = quotas
        self._hints = hints
        self._ranges = ranges

    def create_networks(self, ctx: RequestContext, networks: tuple[Network, ...]) -> tuple[Network, ...]:
        """Raises SegmentInUse if another network has a physical network or VLAN of theirs, Forbidden if the quota is
        used up.
        """

        def work(session: Session) -> tuple[Network, ...]:
            for project_id, count in sorted(Counter(network.project_id for network in networks).items()):
                self._quotas.take(session, project_id, {"networks": count})
            return tuple(rows.add(session, network, self._worker.at()) for network in networks)

        try:
            return self._quotas.counted(work)
        except IntegrityError:
            segments = ", ".join(_segment(network) for network in networks if rows.segment_of(network) is not None)
            raise errors.SegmentInUse(
                f"Unable to create the network. {segments or 'Its ID'} is in use by another network."
            ) from None

    def update_network(self, ctx: RequestContext, network: Network) -> Network:
        """Raises RevisionNumberConstraintFailed if the network has changed since `network` was read. Raises
        InvalidSharedSetting if it is no longer shared but ports of other projects are on it. Raises BadRequest or
        OverlappingSubnets if it is reachable now but its ranges are not allowed, or those of another reachable network.
        """

        def work(session: Session) -> Network:
            if network.reachable:
                self._ranges.lock(session)
            row = require(session, network.id)
            if network.reachable and not row.reachable:
                # An administrator decides about it.
                cidrs = [subnet.cidr for subnet in subnet_rows.of_network(session, row.id)]
                self._ranges.require(session, row, cidrs, any_range=True)
            if row.shared and not network.shared and rows.has_ports_of_others(session, row):
                raise errors.InvalidSharedSetting(
                    f"Unable to reconfigure sharing settings for network {network.id}. Multiple tenants are using it."
                )
            when_committed(session, lambda: self._hints.network_changed(network.id))
            written = rows.replace(session, network, self._worker.at())
            current = rows.find(session, network.id)
            if current is None:
                raise not_found(network.id)
            if not written:
                raise changed("network", network.id)
            return current

        return self._worker.run(work)

    def delete_network(self, ctx: RequestContext, network_id: str, revision: int | None = None) -> None:
        def work(session: Session) -> None:
            row = require(session, network_id)
            require_revision(row, revision)
            if rows.has_ports(session, row.id):
                raise errors.NetworkInUse(
                    f"Unable to complete operation on network {network_id}. There are one or more ports still in use on the network."
                )
            freed_quota: Counter[tuple[str, str]] = Counter({(row.project_id, "networks"): 1})
            for project_id, count in rows.remove(session, row.id).items():
                freed_quota[project_id, "subnets"] += count
            for (project_id, resource), count in sorted(freed_quota.items()):
                give(session, project_id, {resource: count})

        self._worker.run(work)


def require(session: Session, network_id: str) -> NetworkRow:
    """Returns the locked row. Raises NetworkNotFound."""
    row = rows.lock(session, network_id)
    if row is None:
        raise not_found(network_id)
    return row


def not_found(network_id: str) -> errors.NetworkNotFound:
    return errors.NetworkNotFound(f"Network {network_id} could not be found.")


def _segment(network: Network) -> str:
    if network.segmentation_id is None:
        return f"The physical network {network.physical_network}"
    return f"The VLAN {network.segmentation_id} on physical network {network.physical_network}"
