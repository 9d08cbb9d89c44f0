"""Calls of computes about builds and removals."""

from typing import Protocol

from minova.context import RequestContext
from minova.contracts.base import call
from minova.contracts.conductor.audiences import BY_COMPUTES
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.servers.build import BuildReport, InstanceClaim, ReportAnswer
from minova.objects.servers.instance import Instance


@BY_COMPUTES
class BuildReportsApi(Protocol):
    @call(added={"numa_topology": "1.2", "step": "1.6"})
    def claim_instance(
        self,
        ctx: RequestContext,
        *,
        instance_uuid: str,
        attempt: int,
        node: ComputeNode,
        numa_topology: InstanceNUMATopology | None = None,
        step: str | None = None,
    ) -> Instance:
        """Record the host's claim: write host, node and fitted topology to the instance, and usage and PCI devices to
        the node, in one transaction. `step`: the task_state with which the build begins; None: block_device_mapping.

        Raises StaleAttempt if this attempt is no longer that host's, and ComputeResourcesUnavailable if the topology
        leaves dedicated CPUs without host CPUs. The host must then give the claim back.
        """
        ...

    @call(since="1.6")
    def claim_instances(
        self, ctx: RequestContext, *, claims: tuple[InstanceClaim, ...], node: ComputeNode
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
        instance_uuid: str,
        attempt: int,
        host: str,
        step: str,
    ) -> None:
        """Checks that the attempt is still the host's, and records the step (a task_state).

        Raises StaleAttempt if it is not. The host must then stop and clean up.
        """
        ...

    @call(added={"node": "1.6", "rebuilt": "1.9"})
    def build_succeeded(
        self,
        ctx: RequestContext,
        *,
        instance_uuid: str,
        attempt: int,
        host: str,
        power_state: int,
        node: ComputeNode | None = None,
        rebuilt: bool = False,
    ) -> None:
        """The domain runs. `node`: the new usage of its node, written as by `save_compute_node`. `rebuilt`: the disks of
        an evacuated server were made anew from its image. Idempotent.

        Raises StaleAttempt if the domain must be removed.
        """
        ...

    @call(since="1.6")
    def report_builds(
        self,
        ctx: RequestContext,
        *,
        reports: tuple[BuildReport, ...],
        host: str,
        nodes: tuple[ComputeNode, ...] = (),
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
        instance_uuid: str,
        attempt: int,
        host: str,
        reason: str,
        retriable: bool,
        kind: str = "",
    ) -> None:
        """The build has failed and the host has cleaned up. A stale report is ignored.

        `reason`: for administrators.
        `kind`: see `objects/servers/failures.py`.
        """
        ...


@BY_COMPUTES
class RemovalReportsApi(Protocol):
    @call
    def instance_deleted(self, ctx: RequestContext, *, instance_uuid: str, host: str) -> None:
        """Domain and disks are gone from this host. Idempotent."""
        ...

    @call(since="1.6")
    def delete_failed(self, ctx: RequestContext, *, instance_uuid: str, host: str, reason: str, kind: str = "") -> None:
        """The host could not remove the instance. The conductor asks again; users see `kind`. Idempotent."""
        ...
