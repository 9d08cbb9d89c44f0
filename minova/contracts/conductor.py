"""Topics `conductor_api`, what the API alone asks of a conductor, and `conductor`, what every service and the computes ask.

Releases before 1.7 ask everything at the topic `conductor`, where it is served to them unless services have users of their own.
"""

from typing import Any, ClassVar, Protocol

from minova.context import RequestContext
from minova.contracts.base import Role, call, called_by, cast, contract
from minova.objects.aggregate import Aggregate
from minova.objects.build import AuditInputs, BuildReport, HostInstances, InstanceClaim, ReportAnswer
from minova.objects.capacity import Capacity
from minova.objects.compute_node import ComputeNode, HypervisorView, Inventory
from minova.objects.console import ConsoleGrant
from minova.objects.diagnosis import ScheduleAnswer
from minova.objects.flavor import Flavor
from minova.objects.guest_metadata import GuestMetadata
from minova.objects.image import Image, ImageMember
from minova.objects.instance import Instance
from minova.objects.instance_group import InstanceGroup
from minova.objects.key_pair import KeyPair
from minova.objects.migration import Migration, Moved
from minova.objects.network import AddressRequest, Network, Port, SecurityGroup, SecurityGroupRule, Subnet
from minova.objects.node_audit import NodeAudit
from minova.objects.numa import InstanceNUMATopology
from minova.objects.server_changes import ServerChanges
from minova.objects.server_request import CreatedServers, CreateServers, ServerRequest
from minova.objects.service import Service, ServiceInstructions
from minova.objects.vif import Vif


@called_by(Role.API, topic="conductor_api", topic_since="1.7")
class ForApi(Protocol):
    """What the API asks."""

    @call(added={"key_pair": "1.7", "with_drive": "1.7"})
    def create_servers(
        self,
        ctx: RequestContext,
        request: CreateServers,
        key_pair: KeyPair | None = None,
        with_drive: bool = False,
    ) -> CreatedServers:
        """Write instances, specs, actions and tasks in one transaction; answer before they are built. The servers keep the
        text of `key_pair`. `with_drive`: the request is for config drives, access addresses, tags, a host name or a requested
        host, which older conductors would lose.

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

    @call(added={"override_lock": "1.7", "force": "1.7"})
    def delete_server(
        self, ctx: RequestContext, instance_uuid: str, override_lock: bool = False, force: bool = False
    ) -> None:
        """NotFound when there is none. Deleting what is being deleted is no error. Conflict: it is locked. With
        `reclaim_instance_interval` it can be restored for a while, unless `force` is set.

        `override_lock`, here and below: the API lets the caller change locked servers.
        """
        ...

    @cast(since="1.7")
    def network_changed(self, ctx: RequestContext, instance_uuid: str, host: str) -> None:
        """Neutron has told of a change of the instance's interfaces. Idempotent: they are read again, and its host is told."""
        ...

    @call(since="1.7")
    def expect_port(self, ctx: RequestContext, instance_uuid: str, network_id: str) -> None:
        """The API makes a port in Neutron for an interface of this instance now. If no interface has it some minutes later, it is
        deleted. May be repeated. NotFound: no such instance.
        """
        ...

    @call(since="1.7")
    def start_action(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        action: str,
        arguments: dict[str, Any] | None = None,
        override_lock: bool = False,
    ) -> None:
        """Begin a server action, a kind of `objects/server_actions.py`, and answer before it is done. `arguments`: of the compute's method.

        NotFound: there is no such server. Conflict: its state does not allow the action, or its host is down. BadRequest: there is no
        such action.
        """
        ...

    @call(since="1.7")
    def create_console_token(self, ctx: RequestContext, instance_uuid: str, console_type: str) -> str:
        """A token that opens the console once, within `[consoleauth] token_ttl`.

        NotFound: there is no such server. Conflict: it has no host. BadRequest: there is no such console.
        """
        ...

    @call(since="1.7")
    def update_server(
        self, ctx: RequestContext, instance_uuid: str, changes: ServerChanges, override_lock: bool = False
    ) -> None:
        """NotFound. Conflict: it is locked, or its state does not allow the change. Forbidden: too many items of metadata."""
        ...

    @call(since="1.7")
    def reset_server_state(self, ctx: RequestContext, instance_uuid: str, vm_state: str) -> None:
        """To active or error, without a task. NotFound. BadRequest: another state. Conflict: it is built, moved or deleted."""
        ...

    @call(since="1.7")
    def clear_server_password(self, ctx: RequestContext, instance_uuid: str) -> None:
        """The guest may leave another one. NotFound. Idempotent."""
        ...

    @call
    def create_flavor(self, ctx: RequestContext, flavor: Flavor) -> Flavor:
        """Conflict: name or flavorid is taken."""
        ...

    @call(since="1.7")
    def update_flavor(self, ctx: RequestContext, flavorid: str, description: str | None) -> Flavor:
        """NotFound: there is no such flavor."""
        ...

    @call
    def delete_flavor(self, ctx: RequestContext, flavorid: str) -> None: ...

    @call(since="1.7")
    def add_flavor_access(self, ctx: RequestContext, flavorid: str, project_id: str) -> tuple[str, ...]:
        """The projects that may then use it. NotFound: no such flavor. Conflict: this one has access."""
        ...

    @call(since="1.7")
    def remove_flavor_access(self, ctx: RequestContext, flavorid: str, project_id: str) -> tuple[str, ...]:
        """The projects that may then use it. NotFound: no such flavor, or this one has no access."""
        ...

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
    def create_key_pair(self, ctx: RequestContext, key_pair: KeyPair) -> KeyPair:
        """Conflict: the user has one of the name. Forbidden: too many."""
        ...

    @call(since="1.7")
    def delete_key_pair(self, ctx: RequestContext, user_id: str, name: str) -> None:
        """NotFound. Servers that were created with it keep its text."""
        ...

    @call(since="1.7")
    def update_quota_set(self, ctx: RequestContext, project_id: str, limits: dict[str, int], force: bool) -> None:
        """Set these limits of a project; -1 is none. BadRequest: without `force` one is below what is used."""
        ...

    @call(since="1.7")
    def delete_quota_set(self, ctx: RequestContext, project_id: str, resources: tuple[str, ...]) -> None:
        """The defaults of these resources hold again for the project."""
        ...

    @call(since="1.7")
    def update_quota_class_set(self, ctx: RequestContext, class_name: str, limits: dict[str, int]) -> None:
        """Set these limits of a class; those of `default` hold for projects without limits of their own."""
        ...

    @call(since="1.7")
    def create_network(self, ctx: RequestContext, network: Network) -> Network:
        """SegmentInUse: another network has its physical network, or this VLAN of it."""
        ...

    @call(since="1.7")
    def update_network(self, ctx: RequestContext, network: Network) -> Network:
        """Replace what may change. RevisionNumberConstraintFailed: it has changed since it was read."""
        ...

    @call(since="1.7")
    def delete_network(self, ctx: RequestContext, network_id: str) -> None:
        """With its subnets. NetworkInUse: it has ports."""
        ...

    @call(since="1.7")
    def create_subnet(self, ctx: RequestContext, subnet: Subnet, any_range: bool = False) -> Subnet:
        """OverlappingSubnets: another subnet has addresses of its range. `any_range`: see `Subnets.create`."""
        ...

    @call(since="1.7")
    def update_subnet(self, ctx: RequestContext, subnet: Subnet) -> Subnet:
        """As `update_network`. IpAddressAlreadyAllocated: a port has the address of the gateway."""
        ...

    @call(since="1.7")
    def delete_subnet(self, ctx: RequestContext, subnet_id: str) -> None:
        """SubnetInUse: ports have addresses of it."""
        ...

    @call(since="1.7")
    def create_port(self, ctx: RequestContext, port: Port, fixed_ips: tuple[AddressRequest, ...] | None) -> Port:
        """`fixed_ips` None: the next free address of each IP version. An empty `mac_address`: one is chosen.

        IpAddressGenerationFailure: no address is left. IpAddressAlreadyAllocated, MacAddressInUse: another port has it.
        """
        ...

    @call(since="1.7")
    def update_port(self, ctx: RequestContext, port: Port, fixed_ips: tuple[AddressRequest, ...] | None) -> Port:
        """As `update_network`; `fixed_ips` None: the addresses stay. Raises as `create_port`."""
        ...

    @call(since="1.7")
    def delete_port(self, ctx: RequestContext, port_id: str) -> None:
        """Its addresses are free again."""
        ...

    @call(since="1.7")
    def ensure_default_security_group(self, ctx: RequestContext, project_id: str) -> None:
        """The project has its default group. Idempotent."""
        ...

    @call(since="1.7")
    def create_security_group(self, ctx: RequestContext, group: SecurityGroup) -> SecurityGroup:
        """With rules that let everything out. Forbidden: the quota is used up."""
        ...

    @call(since="1.7")
    def update_security_group(self, ctx: RequestContext, group: SecurityGroup) -> SecurityGroup:
        """Its name and description, as `update_network`."""
        ...

    @call(since="1.7")
    def delete_security_group(self, ctx: RequestContext, group_id: str) -> None:
        """With the rules of other groups that name it. SecurityGroupInUse: a port has it."""
        ...

    @call(since="1.7")
    def create_security_group_rule(self, ctx: RequestContext, rule: SecurityGroupRule) -> SecurityGroupRule:
        """SecurityGroupRuleExists: its group has such a rule."""
        ...

    @call(since="1.7")
    def delete_security_group_rule(self, ctx: RequestContext, rule_id: str) -> None:
        """Ports that run feel it at once."""
        ...

    @call
    def create_image(self, ctx: RequestContext, image: Image) -> Image: ...

    @call
    def update_image(self, ctx: RequestContext, image: Image, expected_status: str) -> Image:
        """Replace the row if its status is the expected one; Conflict otherwise."""
        ...

    @call(since="1.7")
    def change_image(self, ctx: RequestContext, expected: Image, image: Image) -> Image:
        """Replace the record if it is still the expected one; ImageChanged otherwise. When it was made and changed does not matter."""
        ...

    @call
    def delete_image(self, ctx: RequestContext, image_id: str) -> None: ...

    @call(since="1.7")
    def add_image_member(self, ctx: RequestContext, image_id: str, member_id: str) -> ImageMember:
        """Share the image with a project, which has not accepted it yet. Conflict: it is shared with it."""
        ...

    @call(since="1.7")
    def update_image_member(self, ctx: RequestContext, image_id: str, member_id: str, status: str) -> ImageMember: ...

    @call(since="1.7")
    def remove_image_member(self, ctx: RequestContext, image_id: str, member_id: str) -> None: ...

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


@called_by(Role.CONSOLEPROXY, topic="conductor_api", topic_since="1.7")
class ForConsoleProxies(Protocol):
    """What console proxies ask."""

    @call(since="1.7")
    def use_console_token(self, ctx: RequestContext, token: str) -> ConsoleGrant:
        """What the token opens. It opens nothing a second time.

        Forbidden: there is no such token, it has expired or was used, or its server is gone.
        """
        ...


@called_by(Role.METADATA, topic="conductor_api", topic_since="1.7", speaks_for_host=True)
class ForMetadata(Protocol):
    """What the metadata service of a host asks, for its guests on `local` networks, which it knows by their addresses."""

    @call(since="1.7")
    def metadata_of_address(self, ctx: RequestContext, host: str, address: str) -> GuestMetadata:
        """NotFound: no instance of this host has the address on a `local` network."""
        ...

    @call(since="1.7")
    def leave_password_of_address(self, ctx: RequestContext, host: str, address: str, password: str) -> None:
        """NotFound as of `metadata_of_address`. Conflict: there is one. BadRequest: it is too long."""
        ...


@called_by(Role.METADATA_PROXY, topic="conductor_api", topic_since="1.7")
class ForMetadataProxies(Protocol):
    """What the metadata service asks for Neutron's proxy, which says whose request it is and signs that."""

    @call(since="1.7")
    def metadata_of_instance(self, ctx: RequestContext, instance_uuid: str, project_id: str) -> GuestMetadata:
        """NotFound: the project has no such server."""
        ...

    @call(since="1.7")
    def leave_password(self, ctx: RequestContext, instance_uuid: str, project_id: str, password: str) -> None:
        """NotFound, Conflict and BadRequest as of the others."""
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

    @call(since="1.7")
    def interfaces_of_host(self, ctx: RequestContext, host: str) -> dict[str, tuple[Vif, ...]]:
        """The interfaces of the host's instances, by instance, with what they let through now."""
        ...

    @call(since="1.7")
    def interface_detached(self, ctx: RequestContext, instance_uuid: str, mac_address: str, host: str) -> None:
        """The guest of an instance of this host does not have this interface, whose port is going: it goes. Idempotent."""
        ...

    @call(since="1.7")
    def bind_interfaces(self, ctx: RequestContext, instance_uuid: str, attempt: int, host: str) -> tuple[Vif, ...]:
        """The interfaces of an instance on networks of Neutron, bound to the host that builds it. Idempotent.

        StaleAttempt: it is no longer this host's. PortBindingFailed: the host cannot have one of them. Raises what Neutron refuses.
        """
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

    @call(since="1.7")
    def image_token(self, ctx: RequestContext, instance_uuid: str, image_id: str, host: str) -> str:
        """A fresh token for the download of an image, which the instance or its open build on this host uses.

        StaleAttempt: it has none such on this host.
        """
        ...

    @call(since="1.7")
    def image_upload_token(self, ctx: RequestContext, instance_uuid: str, image_id: str, host: str) -> str:
        """A fresh token for the upload of the image that this host makes of the instance now.

        StaleAttempt: it makes none such. ImageDeleted: it was deleted meanwhile. Conflict: all its bytes have come, so
        that the action is done.
        """
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
    def begin_action(
        self, ctx: RequestContext, instance_uuid: str, action_id: int, host: str, again: bool = False
    ) -> None:
        """Is this action still in progress on this host? StaleAttempt: it is not; leave the instance alone.

        `again`: asked in the middle of it, before a step that changes the guest.
        """
        ...

    @call(since="1.7")
    def action_progressed(
        self, ctx: RequestContext, instance_uuid: str, action_id: int, host: str, task_state: str
    ) -> None:
        """The action has come to this task state, and gets its whole time again. Idempotent. StaleAttempt: as of `begin_action`."""
        ...

    @call(since="1.7")
    def action_succeeded(
        self, ctx: RequestContext, instance_uuid: str, action_id: int, host: str, power_state: int
    ) -> None:
        """The host has done the action. Idempotent; a stale report is ignored."""
        ...

    @call(since="1.7")
    def action_failed(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        action_id: int,
        host: str,
        reason: str,
        kind: str = "",
        power_state: int | None = None,
        untouched: bool = False,
    ) -> None:
        """The host could not do the action. Idempotent; a stale report is ignored. `power_state`: the guest's, if it is known.

        `untouched`: nothing has happened to the guest.
        """
        ...

    @call
    def report_power_states(self, ctx: RequestContext, host: str, states: dict[str, int]) -> None:
        """{instance uuid: PowerState} of domains whose state changed. Instances of other hosts are left alone."""
        ...


@contract
class ConductorApi(ForApi, ForConsoleProxies, ForMetadata, ForMetadataProxies, ForServices, ForComputes, Protocol):
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
        "1.7": "server actions; changes of servers and flavors; kinds of failures; the topic conductor_api; quotas; key pairs; tokens, changes and members of images; networks, subnets, ports and security groups; consoles; config drives; metadata of guests",
    }
