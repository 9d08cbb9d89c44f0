"""Topics `conductor_api`, what the API alone asks of a conductor, and `conductor`, what every service and the computes ask.

Releases before 1.7 ask everything at the topic `conductor`, where it is served to them unless services have users of their own.
"""

from typing import ClassVar, Protocol

from minova.context import RequestContext
from minova.contracts.base import Role, call, called_by, cast, contract
from minova.objects.aggregate import Aggregate
from minova.objects.build import AuditInputs, BuildReport, HostInstances, InstanceClaim, ReportAnswer
from minova.objects.capacity import Capacity
from minova.objects.compute_node import ComputeNode, HypervisorView, Inventory
from minova.objects.diagnosis import ScheduleAnswer
from minova.objects.flavor import Flavor
from minova.objects.image import Image
from minova.objects.instance import Instance
from minova.objects.instance_group import InstanceGroup
from minova.objects.migration import Migration, Moved
from minova.objects.node_audit import NodeAudit
from minova.objects.numa import InstanceNUMATopology
from minova.objects.server_request import CreatedServers, CreateServers, ServerRequest
from minova.objects.service import Service, ServiceInstructions


@called_by(Role.API, topic="conductor_api", topic_since="1.7")
class ForApi(Protocol):
    """What the API asks."""

    @call
    def create_servers(self, ctx: RequestContext, request: CreateServers) -> CreatedServers:
        """Write instances, specs, actions and tasks in one transaction; answer before they are built.

        Conflict: the same `request_uuid` came before with another body. Repeated with the same one: the same answer.
        """
        ...

    @call(since="1.4")
    def preview_servers(self, ctx: RequestContext, request: ServerRequest) -> ScheduleAnswer:
        """Where they would go now, and why; nothing is written. "No" is an answer, too."""
        ...

    @call(since="1.4")
    def capacity(self, ctx: RequestContext, request: ServerRequest, limit: int) -> Capacity:
        """How many more of it fit, `limit` on each host at most; nothing is written."""
        ...

    @call
    def delete_server(self, ctx: RequestContext, instance_uuid: str) -> None:
        """NotFound when there is none. Deleting what is being deleted is no error."""
        ...

    @call(since="1.7")
    def start_action(self, ctx: RequestContext, instance_uuid: str, action: str) -> None:
        """Begin a server action, one of `objects/server_actions.py`, and answer before it is done.

        NotFound: there is no such server. Conflict: its state does not allow the action. BadRequest: there is no such action.
        """
        ...

    @call
    def create_flavor(self, ctx: RequestContext, flavor: Flavor) -> Flavor:
        """Conflict: name or flavorid is taken."""
        ...

    @call
    def delete_flavor(self, ctx: RequestContext, flavorid: str) -> None: ...

    @call(since="1.1")
    def update_flavor_extra_specs(
        self, ctx: RequestContext, flavorid: str, extra_specs: dict[str, str | None]
    ) -> Flavor:
        """Set these, unset those that are None. NotFound: no such flavor, or none such of it."""
        ...

    @call(since="1.1")
    def create_aggregate(self, ctx: RequestContext, name: str, metadata: dict[str, str]) -> Aggregate:
        """Conflict: the name is taken."""
        ...

    @call(since="1.1")
    def update_aggregate(
        self, ctx: RequestContext, aggregate_id: int, name: str | None, metadata: dict[str, str | None]
    ) -> Aggregate:
        """`name` None: as it is; of `metadata` what is None is unset. BadRequest: its zone cannot change so."""
        ...

    @call(since="1.1")
    def delete_aggregate(self, ctx: RequestContext, aggregate_id: int) -> None:
        """BadRequest: it has hosts."""
        ...

    @call(since="1.1")
    def add_host_to_aggregate(self, ctx: RequestContext, aggregate_id: int, host: str) -> Aggregate:
        """NotFound: no such aggregate or compute host. Conflict: it is in already, or in another zone."""
        ...

    @call(since="1.1")
    def remove_host_from_aggregate(self, ctx: RequestContext, aggregate_id: int, host: str) -> Aggregate:
        """NotFound: it is not in it. Conflict: its instances would change their zone."""
        ...

    @call(since="1.1")
    def create_server_group(
        self, ctx: RequestContext, name: str, policy: str, max_server_per_host: int | None = None
    ) -> InstanceGroup:
        """BadRequest: no such policy, or a rule that is not the policy's."""
        ...

    @call(since="1.1")
    def delete_server_group(self, ctx: RequestContext, group_uuid: str) -> None:
        """NotFound. Its servers stay where they are."""
        ...

    @call(since="1.7")
    def update_quota_set(self, ctx: RequestContext, project_id: str, limits: dict[str, int], force: bool) -> None:
        """Set these limits of a project; -1 is none. BadRequest: without `force` one is below what is used."""
        ...

    @call(since="1.7")
    def delete_quota_set(self, ctx: RequestContext, project_id: str) -> None:
        """The defaults hold again for the project."""
        ...

    @call(since="1.7")
    def update_quota_class_set(self, ctx: RequestContext, class_name: str, limits: dict[str, int]) -> None:
        """Set these limits of a class; those of `default` hold for projects without limits of their own."""
        ...

    @call
    def create_image(self, ctx: RequestContext, image: Image) -> Image: ...

    @call
    def update_image(self, ctx: RequestContext, image: Image, expected_status: str) -> Image:
        """Replace the row if its status is the expected one; Conflict otherwise."""
        ...

    @call
    def delete_image(self, ctx: RequestContext, image_id: str) -> None: ...

    @call
    def update_service(
        self,
        ctx: RequestContext,
        service_uuid: str,
        disabled: bool | None = None,
        disabled_reason: str | None = None,
        forced_down: bool | None = None,
    ) -> Service:
        """`None` leaves a field as it is; enabling clears the reason."""
        ...

    @call(since="1.6")
    def delete_service(self, ctx: RequestContext, service_uuid: str) -> None:
        """With a compute its nodes, providers and memberships of aggregates go. A process that still runs registers anew.

        NotFound: no such service. Conflict: its host has instances, migrations in progress or builds.
        """
        ...


@called_by(Role.COMPUTE, Role.SCHEDULER, Role.CONDUCTOR, speaks_for_host=True)
class ForServices(Protocol):
    """What every service asks. It names itself as a host and a binary."""

    @call
    def register_service(self, ctx: RequestContext, service: Service) -> ServiceInstructions:
        """Make or refresh the row of (host, binary); whether it is disabled stays as operators set it.

        HostIdentityConflict: the compute is not the one that the host's rows describe. HostInUse: another process serves the
        host and lives.
        """
        ...

    @call
    def heartbeat(
        self, ctx: RequestContext, host: str, binary: str, down_reason: str | None = None
    ) -> ServiceInstructions:
        """Alive; `down_reason` says why it cannot work all the same. NotFound: it never registered, and should."""
        ...

    @cast(since="1.6")
    def service_stopped(self, ctx: RequestContext, host: str, binary: str, process: str) -> None:
        """The process has stopped gracefully: another one may register for the host at once."""
        ...


@called_by(Role.COMPUTE, speaks_for_host=True)
class ForComputes(Protocol):
    """What computes ask. Each method names the host that the compute speaks for."""

    @call
    def instances_of_host(self, ctx: RequestContext, host: str) -> HostInstances:
        """For `init_host`: what this host should have."""
        ...

    @call(since="1.6", of_no_host=True)
    def hosts_of_instances(self, ctx: RequestContext, instance_uuids: tuple[str, ...]) -> dict[str, str | None]:
        """{instance uuid: the host that its row names} of those that have a row, deleted or not.

        A compute that is known by its broker user learns of others only that it is not its own: `OTHER_HOST`.
        """
        ...

    @call
    def begin_audit(self, ctx: RequestContext, host: str, view: HypervisorView) -> AuditInputs:
        """First of the audit's two calls: the driver's view in, what the database knows of the node out."""
        ...

    @call(added={"traits": "1.2", "found": "1.3"})
    def finish_audit(
        self,
        ctx: RequestContext,
        node: ComputeNode,
        inventories: tuple[Inventory, ...],
        traits: tuple[str, ...] = (),
        found: NodeAudit | None = None,
    ) -> ComputeNode:
        """Second call: write the node, made on first use, and its provider's inventories and traits, where they changed.

        Allocations on this provider of instances that are gone are removed. Answers the row with its id and generation.
        """
        ...

    @call
    def delete_compute_nodes(self, ctx: RequestContext, host: str, nodes: tuple[str, ...]) -> None:
        """The driver no longer reports these nodes (hypervisor host names): their rows and providers go."""
        ...

    @call
    def save_compute_node(self, ctx: RequestContext, node: ComputeNode) -> ComputeNode:
        """Usage changed between audits, by a claim dropped or an instance removed."""
        ...

    @call(added={"numa_topology": "1.2", "step": "1.6"})
    def claim_instance(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        attempt: int,
        node: ComputeNode,
        numa_topology: InstanceNUMATopology | None = None,
        step: str | None = None,
    ) -> Instance:
        """The host's claim stands: write host, node and fitted topology to the instance, and usage and PCI devices to
        the node, at once. `step`: the task_state that the build begins with; None: block_device_mapping.

        StaleAttempt: this attempt is no longer that host's; the claim must be given back.
        """
        ...

    @call(since="1.6")
    def claim_instances(
        self, ctx: RequestContext, claims: tuple[InstanceClaim, ...], node: ComputeNode
    ) -> tuple[ReportAnswer, ...]:
        """`claim_instance` for several at once, in one transaction; an answer for each, in their order.

        `node` holds the usage of all of them. If the answer to one says that it is not written, the host must give that
        claim back and write its node again.
        """
        ...

    @call(since="1.2")
    def claim_move(self, ctx: RequestContext, migration: Migration, node: ComputeNode) -> Migration:
        """The destination's claim stands: its place and topology to the migration, usage and devices to its node.

        StaleAttempt: the migration is over or has another destination. Said twice, it is heard once.
        """
        ...

    @call(since="1.2")
    def step_move(self, ctx: RequestContext, migration_uuid: str, status: str, host: str) -> Moved:
        """The move goes on to `status`: at `finished`, `completed` and `done` the instance is the destination's, with
        the new size; at `confirmed` the source gives back what it held, at `reverted`, `error` the destination.

        StaleAttempt: the migration is not where it could take that step, or is no business of this host.
        """
        ...

    @call
    def begin_attempt(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        attempt: int,
        host: str,
        step: str,
    ) -> None:
        """Is attempt N still mine? Also notes the step (a task_state). StaleAttempt: it is not; stop and clean up."""
        ...

    @call(added={"node": "1.6"})
    def build_succeeded(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        attempt: int,
        host: str,
        power_state: int,
        node: ComputeNode | None = None,
    ) -> None:
        """The domain runs. `node`: the usage of its node from now on, as `save_compute_node` writes it.

        StaleAttempt: the domain must be removed. Idempotent.
        """
        ...

    @call(since="1.6")
    def report_builds(
        self,
        ctx: RequestContext,
        reports: tuple[BuildReport, ...],
        host: str,
        nodes: tuple[ComputeNode, ...] = (),
    ) -> tuple[ReportAnswer, ...]:
        """`begin_attempt` and `build_succeeded` for several at once, in one transaction; an answer for each, in their order.

        `nodes`: the usage of their nodes once all those have succeeded that say so. If the answer to one says that it is not
        written, the host must write its nodes again.
        """
        ...

    @call(added={"kind": "1.7"})
    def build_failed(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        attempt: int,
        host: str,
        reason: str,
        retriable: bool,
        kind: str = "",
    ) -> None:
        """The host has cleaned up. A stale report is ignored. `kind`: see `objects/failures.py`; `reason` is for administrators."""
        ...

    @call
    def instance_deleted(self, ctx: RequestContext, instance_uuid: str, host: str) -> None:
        """Domain and disks are gone from this host. Said twice, it is heard once."""
        ...

    @call(since="1.6")
    def delete_failed(self, ctx: RequestContext, instance_uuid: str, host: str, reason: str, kind: str = "") -> None:
        """The host could not remove it. It is asked again; users see its kind. Repeating it is harmless."""
        ...

    @call(since="1.7")
    def begin_action(self, ctx: RequestContext, instance_uuid: str, action_id: int, host: str) -> None:
        """Is this action still in progress on this host? StaleAttempt: it is not; leave the instance alone."""
        ...

    @call(since="1.7")
    def action_succeeded(
        self, ctx: RequestContext, instance_uuid: str, action_id: int, host: str, power_state: int
    ) -> None:
        """The host has done the action. Idempotent; a stale report is ignored."""
        ...

    @call(since="1.7")
    def action_failed(
        self, ctx: RequestContext, instance_uuid: str, action_id: int, host: str, reason: str, kind: str = ""
    ) -> None:
        """The host could not do the action: the instance is as before. Idempotent; a stale report is ignored."""
        ...

    @call
    def report_power_states(self, ctx: RequestContext, host: str, states: dict[str, int]) -> None:
        """{instance uuid: PowerState} of domains whose state changed. Instances of other hosts are left alone."""
        ...


@contract
class ConductorApi(ForApi, ForServices, ForComputes, Protocol):
    TOPIC: ClassVar[str] = "conductor"
    VERSION: ClassVar[str] = "1.7"
    HISTORY: ClassVar[dict[str, str]] = {
        "1.0": "first",
        "1.1": "aggregates, server groups, extra specs of flavors",
        "1.2": "NUMA and PCI in claims, moves",
        "1.3": "what an audit found, which domains are of deleted instances",
        "1.4": "previews and capacity",
        "1.5": "how often to audit",
        "1.6": "versions of services; hosts of instances; the end of a process; failed removals; several claims; removing services",
        "1.7": "server actions; kinds of failures; the topic conductor_api; quotas",
    }
