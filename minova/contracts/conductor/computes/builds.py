"""Calls of computes about builds and removals."""

from typing import Annotated, Protocol

from msgspec import Meta

from minova.context import RequestContext
from minova.contracts.base import call
from minova.contracts.conductor.audiences import BY_COMPUTES
from minova.objects.hosts.bounds import MAX_NODES, MAX_REPORTS, Count, Line, PowerNumber, Reason
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.servers.build import BuildReport, InstanceClaim, ReportAnswer
from minova.objects.servers.chosen_hardware import ChosenHardware
from minova.objects.servers.instance import Instance


@BY_COMPUTES
class BuildReportsApi(Protocol):
    @call(added={"numa_topology": "1.2", "step": "1.6"})
    def claim_instance(
        self,
        ctx: RequestContext,
        *,
        instance_uuid: Line,
        attempt: Count,
        node: ComputeNode,
        numa_topology: InstanceNUMATopology | None = None,
        step: Line | None = None,
    ) -> Instance:
        """Record the host's claim: write host, node and fitted topology to the instance, and usage and PCI devices to
        the node, in one transaction. `step`: the task_state with which the build begins; None: block_device_mapping.

        Raises StaleAttempt if this attempt is no longer that host's, and ComputeResourcesUnavailable if the topology
        leaves dedicated CPUs without host CPUs. The host must then give the claim back.
        """
        ...

    @call(since="1.6")
    def claim_instances(
        self,
        ctx: RequestContext,
        *,
        claims: Annotated[tuple[InstanceClaim, ...], Meta(max_length=MAX_REPORTS)],
        node: ComputeNode,
    ) -> tuple[ReportAnswer, ...]:
        """`claim_instance` for several instances in one transaction. Returns an answer for each, in their order.

        `node` holds the usage of all of them. If an answer says that its claim is not written, the host must give that
        claim back and write its node again.
        """
        ...

    @call
    def begin_attempt(
        self,
        ctx: RequestContext,
        *,
        instance_uuid: Line,
        attempt: Count,
        host: Line,
        step: Line,
    ) -> None:
        """Checks that the attempt is still the host's, and records the step (a task_state).

        Raises StaleAttempt if it is not. The host must then stop and clean up.
        """
        ...

    @call(added={"node": "1.6", "rebuilt": "1.9", "hardware": "1.9"})
    def build_succeeded(
        self,
        ctx: RequestContext,
        *,
        instance_uuid: Line,
        attempt: Count,
        host: Line,
        power_state: PowerNumber,
        node: ComputeNode | None = None,
        rebuilt: bool = False,
        hardware: ChosenHardware | None = None,
    ) -> None:
        """The domain runs. `node`: the new usage of its node, written as by `save_compute_node`. `rebuilt`, `hardware`: see
        `BuildReport`. Idempotent.

        Raises StaleAttempt if the domain must be removed.
        """
        ...

    @call(since="1.6")
    def report_builds(
        self,
        ctx: RequestContext,
        *,
        reports: Annotated[tuple[BuildReport, ...], Meta(max_length=MAX_REPORTS)],
        host: Line,
        nodes: Annotated[tuple[ComputeNode, ...], Meta(max_length=MAX_NODES)] = (),
    ) -> tuple[ReportAnswer, ...]:
        """`begin_attempt` and `build_succeeded` for several instances in one transaction. Returns an answer for each,
        in their order.

        `nodes`: the usage of their nodes if all builds that are reported as successful have succeeded. If an answer
        says that its report is not written, the host must write its nodes again.
        """
        ...

    @call(added={"kind": "1.7"})
    def build_failed(
        self,
        ctx: RequestContext,
        *,
        instance_uuid: Line,
        attempt: Count,
        host: Line,
        reason: Reason,
        retriable: bool,
        kind: Line = "",
    ) -> None:
        """The build has failed and the host has cleaned up. A stale report is ignored.

        `reason`: for administrators.
        `kind`: see `objects/servers/failures.py`.
        """
        ...


@BY_COMPUTES
class RemovalReportsApi(Protocol):
    @call(since="1.9")
    def begin_removal(self, ctx: RequestContext, *, instance_uuid: Line, host: Line) -> None:
        """Checks that the instance is being deleted, or is deleted. The host calls it before it removes anything: the request
        may be late, and its deletion given up or lost with a restored database.

        Raises StaleAttempt if it is not. The host must then change nothing.
        """
        ...

    @call
    def instance_deleted(self, ctx: RequestContext, *, instance_uuid: Line, host: Line) -> None:
        """Domain and disks are gone from this host. Idempotent."""
        ...

    @call(since="1.6")
    def delete_failed(
        self, ctx: RequestContext, *, instance_uuid: Line, host: Line, reason: Reason, kind: Line = ""
    ) -> None:
        """The host could not remove the instance. The conductor asks again; users see `kind`. Idempotent."""
        ...
