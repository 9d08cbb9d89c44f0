"""Resources held on a node for work in progress. Leaving the `with` block by an exception gives them back."""

import logging
from types import TracebackType
from typing import Protocol, Self

import msgspec

from minova import errors, metrics
from minova.compute.accounting.claim_test import Demand, Fit, fit_of
from minova.context import RequestContext
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.requests.request_spec import HostLimits
from minova.objects.servers.instance import Instance
from minova.objects.servers.migration import Migration

LOG = logging.getLogger(__name__)


def check_claim(node: ComputeNode, instance_uuid: str, demand: Demand, limits: HostLimits, *, packing: bool) -> Fit:
    """Test whether the demand fits the free resources of the node, log and count the result. Raises
    ComputeResourcesUnavailable if it does not fit.
    """
    # oslo.log writes the instance before the message, as in Nova's log.
    of_instance = {"instance_uuid": instance_uuid}
    usage = demand.usage
    LOG.info(
        "Attempting claim: memory %d MB, disk %d GB, vcpus %d CPU",
        usage.memory_mb,
        usage.disk_gb,
        usage.vcpus,
        extra=of_instance,
    )
    fit = fit_of(node, demand, limits, packing=packing)
    for line in fit.lines:
        LOG.info(line, extra=of_instance)
    for kind in fit.refused:
        metrics.CLAIMS.labels("refused", kind).inc()
    if fit.reason is not None:
        raise errors.ComputeResourcesUnavailable(f"Insufficient compute resources: {fit.reason}")
    metrics.CLAIMS.labels("granted", "").inc()
    LOG.info("Claim successful on node %s", node.hypervisor_hostname, extra=of_instance)
    return fit


class Holder(Protocol):
    """The holder of a claim's resources: a ResourceTracker."""

    def release(self, ctx: RequestContext, instance_uuid: str) -> None: ...

    def note_move(self, ctx: RequestContext, instance: Instance, migration: Migration) -> None: ...


class Claim:
    """The claim of an instance; `instance` is as the conductor wrote it with the claim."""

    def __init__(self, tracker: Holder, ctx: RequestContext, instance: Instance) -> None:
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
    """A claim that holds nothing, for a driver that reports no resources."""

    def abort(self) -> None:
        pass


class MoveClaim(Claim):
    """The destination's claim of a resize, migration or evacuation; `migration` is as the conductor wrote it with the
    claim.

    The claim stays until the move is confirmed, reverted or fails.
    """

    def __init__(self, tracker: Holder, ctx: RequestContext, instance: Instance, migration: Migration) -> None:
        super().__init__(tracker, ctx, instance)
        self.migration = migration

    def abort(self) -> None:
        LOG.debug("Aborting move claim of instance %s", self.instance.uuid)
        self._tracker.note_move(self._ctx, self.instance, msgspec.structs.replace(self.migration, status="error"))
