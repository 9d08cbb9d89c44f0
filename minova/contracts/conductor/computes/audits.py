"""Calls of computes about their nodes and instances."""

from typing import Annotated, Protocol

from msgspec import Meta

from minova.context import RequestContext
from minova.contracts.base import call
from minova.contracts.conductor.audiences import BY_COMPUTES
from minova.objects.actions.guest_changes import LastAction
from minova.objects.hosts.bounds import MAX_GUESTS, MAX_NODES, Figure, Line
from minova.objects.hosts.compute_node import AvailableResources, ComputeNode, Inventory, Traits
from minova.objects.hosts.node_audit import NodeAudit
from minova.objects.servers.build import AuditInputs, HostInstances
from minova.objects.servers.chosen_hardware import ChosenHardware


@BY_COMPUTES
class AuditsApi(Protocol):
    @call(in_safe_mode=True)
    def instances_of_host(self, ctx: RequestContext, *, host: Line) -> HostInstances:
        """Returns the instances that this host should have, for `init_host`."""
        ...

    @call(since="1.6", of_no_host=True, in_safe_mode=True)
    def hosts_of_instances(
        self, ctx: RequestContext, *, instance_uuids: Annotated[tuple[Line, ...], Meta(max_length=MAX_GUESTS)]
    ) -> dict[str, str | None]:
        """Returns {instance uuid: host in its row} for the instances that have a row, deleted or not.

        A compute that is known by its broker user does not get the names of other hosts, but `OTHER_HOST` instead.
        """
        ...

    @call(describes_host=True)
    def begin_audit(self, ctx: RequestContext, *, host: Line, view: AvailableResources) -> AuditInputs:
        """First of the audit's two calls: sends the driver's view, and returns what the database has of the node."""
        ...

    @call(added={"traits": "1.2", "found": "1.3"}, describes_host=True)
    def finish_audit(
        self,
        ctx: RequestContext,
        *,
        node: ComputeNode,
        inventories: Annotated[tuple[Inventory, ...], Meta(max_length=64)],
        traits: Traits = (),
        found: NodeAudit | None = None,
    ) -> ComputeNode:
        """Second call: write the node, which is inserted on first use, and its provider's inventories and traits, where
        they changed.

        Removes the allocations that deleted instances still have on this provider. Returns the row with its id and
        generation.
        """
        ...

    @call
    def delete_compute_nodes(
        self, ctx: RequestContext, *, host: Line, nodes: Annotated[tuple[Line, ...], Meta(max_length=MAX_NODES)]
    ) -> None:
        """The driver no longer reports these nodes (hypervisor host names). Their rows and providers are deleted."""
        ...

    @call
    def save_compute_node(self, ctx: RequestContext, *, node: ComputeNode) -> ComputeNode:
        """Write usage that changed between audits, because a claim was dropped or an instance was removed."""
        ...

    @call(since="1.9")
    def record_hardware(
        self,
        ctx: RequestContext,
        *,
        host: Line,
        chosen: Annotated[dict[Line, ChosenHardware], Meta(max_length=MAX_GUESTS)],
    ) -> None:
        """Records {instance uuid: hardware} of guests for which none is recorded. Instances of other hosts and instances with
        a task are not changed. Idempotent.
        """
        ...

    @call(added={"reasons": "1.8", "after": "1.9"})
    def report_power_states(
        self,
        ctx: RequestContext,
        *,
        host: Line,
        states: Annotated[dict[Line, Figure], Meta(max_length=MAX_GUESTS)],
        reasons: Annotated[dict[Line, Line], Meta(max_length=MAX_GUESTS)] | None = None,
        after: Annotated[dict[Line, LastAction], Meta(max_length=MAX_GUESTS)] | None = None,
    ) -> dict[Line, LastAction] | None:
        """Reports {instance uuid: PowerState} of domains whose state changed, and {instance uuid: GuestReason} of those whose
        state has a reason. Instances of other hosts are not changed.

        Returns {instance uuid: its last action} of those instances that would change, for example stop, and were not proved to
        be in this state after that action. The host reads their states again and reports these with the actions in `after`.
        So a report that comes late or twice changes no instance that an action has changed since. `after` None: a host of an
        earlier release does not prove its reports. Then all of them count, and the answer is None.
        """
        ...
