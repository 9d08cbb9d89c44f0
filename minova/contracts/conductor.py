"""Topic `conductor_api` serves the calls of the API. Topic `conductor` serves the calls of all other services and of
computes.

Releases before 1.7 send all calls to the topic `conductor`, which serves them unless services have users of their own.
"""

from typing import Any, ClassVar, Protocol

from minova.context import RequestContext
from minova.contracts.base import Role, call, called_by, cast, contract
from minova.objects.catalogue.aggregate import Aggregate
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image, ImageMember, StoredImage
from minova.objects.catalogue.instance_group import InstanceGroup
from minova.objects.catalogue.key_pair import KeyPair
from minova.objects.hosts.cloud import CloudState, Seen
from minova.objects.hosts.compute_node import ComputeNode, HypervisorView, Inventory
from minova.objects.hosts.node_audit import NodeAudit
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.hosts.service import Service, ServiceInstructions
from minova.objects.network.network import AddressRequest, Network, Port, SecurityGroup, SecurityGroupRule, Subnet
from minova.objects.network.vif import Vif
from minova.objects.requests.capacity import Capacity
from minova.objects.requests.diagnosis import ScheduleAnswer
from minova.objects.requests.server_request import CreatedServers, CreateServers, ServerRequest
from minova.objects.servers.build import AuditInputs, BuildReport, HostInstances, InstanceClaim, ReportAnswer
from minova.objects.servers.console import ConsoleGrant
from minova.objects.servers.guest_metadata import GuestMetadata
from minova.objects.servers.instance import Instance
from minova.objects.servers.migration import Migration, Moved
from minova.objects.servers.server_changes import ServerChanges
from minova.objects.unexpected.guest_record import GuestMark, GuestRecord, GuestsAnswer


@called_by(Role.API, topic="conductor_api", topic_since="1.7")
class ForApi(Protocol):
    """Calls of the API."""

    @call(added={"key_pair": "1.7", "with_drive": "1.7"})
    def create_servers(
        self,
        ctx: RequestContext,
        request: CreateServers,
        key_pair: KeyPair | None = None,
        with_drive: bool = False,
    ) -> CreatedServers:
        """Write instances, specs, actions and tasks in one transaction; return before the servers are built. A repeated
        request with the same `request_uuid` gets the same answer.

        `key_pair`: the servers keep its text.
        `with_drive`: the request is for config drives, access addresses, tags, a host name or a requested host, which
          older conductors would lose.

        Raises Conflict if the same `request_uuid` was used before with another body.
        """
        ...

    @call(since="1.8", in_safe_mode=True)
    def report_images(self, ctx: RequestContext, store: str, images: tuple[StoredImage, ...]) -> tuple[str, ...]:
        """All images of a store that the database does not know, or knows without their bytes. Returns those that an
        operator has decided to remove. Changes no image.

        Raises BadRequest if an image is not valid or there are too many. Raises DiskFull if there is no room.
        """
        ...

    @call(since="1.4", in_safe_mode=True)
    def preview_servers(self, ctx: RequestContext, request: ServerRequest) -> ScheduleAnswer:
        """Returns where the servers would be placed now, and why; writes nothing. A request that fits nowhere gets an
        answer, too.
        """
        ...

    @call(since="1.4", in_safe_mode=True)
    def capacity(self, ctx: RequestContext, request: ServerRequest, limit: int) -> Capacity:
        """Returns how many more servers of this request fit, counting at most `limit` on each host; writes nothing."""
        ...

    @call(added={"override_lock": "1.7", "force": "1.7"})
    def delete_server(
        self, ctx: RequestContext, instance_uuid: str, override_lock: bool = False, force: bool = False
    ) -> None:
        """Delete a server. If it is being deleted already, that is no error. With `reclaim_instance_interval` it can be
        restored for a while, unless `force` is set.

        `override_lock`, here and below: the API lets the caller change locked servers.

        Raises NotFound if there is no such server, Conflict if it is locked.
        """
        ...

    @cast(since="1.7")
    def network_changed(self, ctx: RequestContext, instance_uuid: str, host: str) -> None:
        """Neutron has reported a change of the instance's interfaces. They are read again, and its host gets a message.
        Idempotent.
        """
        ...

    @call(since="1.7")
    def expect_port(self, ctx: RequestContext, instance_uuid: str, network_id: str) -> None:
        """The API is about to make a port in Neutron for an interface of this instance. If no interface has that port
        some minutes later, it is deleted. May be repeated. Raises NotFound if there is no such instance.
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
        """Begin a server action, one of the kinds in `objects/actions/table.py`, and return before it is done.
        `arguments`: those of the compute's method.

        Raises NotFound if there is no such server. Raises Conflict if its state does not allow the action, or its host
        is down. Raises BadRequest if there is no such action.
        """
        ...

    @call(since="1.7")
    def create_console_token(self, ctx: RequestContext, instance_uuid: str, console_type: str) -> str:
        """Returns a token that opens the console once, within `[consoleauth] token_ttl`.

        Raises NotFound if there is no such server, Conflict if it has no host, BadRequest if there is no such console.
        """
        ...

    @call(since="1.7")
    def update_server(
        self, ctx: RequestContext, instance_uuid: str, changes: ServerChanges, override_lock: bool = False
    ) -> None:
        """Raises NotFound if there is no such server. Raises Conflict if it is locked, or its state does not allow the
        change. Raises Forbidden if it would have too many items of metadata.
        """
        ...

    @call(since="1.7")
    def reset_server_state(self, ctx: RequestContext, instance_uuid: str, vm_state: str) -> None:
        """Set the state to active or error, without a task.

        Raises NotFound if there is no such server, BadRequest for any other state, Conflict if the server is being
        built, moved or deleted.
        """
        ...

    @call(since="1.7")
    def clear_server_password(self, ctx: RequestContext, instance_uuid: str) -> None:
        """Remove the password; the guest may then leave another one. Idempotent. Raises NotFound if there is no such
        server.
        """
        ...

    @call
    def create_flavor(self, ctx: RequestContext, flavor: Flavor) -> Flavor:
        """Raises Conflict if the name or flavorid is taken."""
        ...

    @call(since="1.7")
    def update_flavor(self, ctx: RequestContext, flavorid: str, description: str | None) -> Flavor:
        """Raises NotFound if there is no such flavor."""
        ...

    @call
    def delete_flavor(self, ctx: RequestContext, flavorid: str) -> None: ...

    @call(since="1.7")
    def add_flavor_access(self, ctx: RequestContext, flavorid: str, project_id: str) -> tuple[str, ...]:
        """Returns the projects that then have access. Raises NotFound if there is no such flavor, Conflict if the
        project has access.
        """
        ...

    @call(since="1.7")
    def remove_flavor_access(self, ctx: RequestContext, flavorid: str, project_id: str) -> tuple[str, ...]:
        """Returns the projects that then have access. Raises NotFound if there is no such flavor, or the project has no
        access.
        """
        ...

    @call(since="1.1")
    def update_flavor_extra_specs(
        self, ctx: RequestContext, flavorid: str, extra_specs: dict[str, str | None]
    ) -> Flavor:
        """Set these extra specs, and unset those that are None. Raises NotFound if there is no such flavor, or one to
        be unset is not set.
        """
        ...

    @call(since="1.1")
    def create_aggregate(self, ctx: RequestContext, name: str, metadata: dict[str, str]) -> Aggregate:
        """Raises Conflict if the name is taken."""
        ...

    @call(since="1.1")
    def update_aggregate(
        self, ctx: RequestContext, aggregate_id: int, name: str | None, metadata: dict[str, str | None]
    ) -> Aggregate:
        """`name` None: the name stays. Keys of `metadata` with the value None are unset.

        Raises BadRequest if the aggregate's zone cannot change so.
        """
        ...

    @call(since="1.1")
    def delete_aggregate(self, ctx: RequestContext, aggregate_id: int) -> None:
        """Raises BadRequest if the aggregate has hosts."""
        ...

    @call(since="1.1")
    def add_host_to_aggregate(self, ctx: RequestContext, aggregate_id: int, host: str) -> Aggregate:
        """Raises NotFound if there is no such aggregate or compute host, Conflict if the host is in it already or in
        another zone.
        """
        ...

    @call(since="1.1")
    def remove_host_from_aggregate(self, ctx: RequestContext, aggregate_id: int, host: str) -> Aggregate:
        """Raises NotFound if the host is not in the aggregate, Conflict if the host's instances would change their
        zone.
        """
        ...

    @call(since="1.1")
    def create_server_group(
        self, ctx: RequestContext, name: str, policy: str, max_server_per_host: int | None = None
    ) -> InstanceGroup:
        """Raises BadRequest if there is no such policy, or the policy does not have this rule."""
        ...

    @call(since="1.1")
    def delete_server_group(self, ctx: RequestContext, group_uuid: str) -> None:
        """The group's servers stay where they are. Raises NotFound if there is no such group."""
        ...

    @call(since="1.7")
    def create_key_pair(self, ctx: RequestContext, key_pair: KeyPair) -> KeyPair:
        """Raises Conflict if the user has a key pair of this name, Forbidden if the user has too many."""
        ...

    @call(since="1.7")
    def delete_key_pair(self, ctx: RequestContext, user_id: str, name: str) -> None:
        """Servers created with the key pair keep its text. Raises NotFound if there is no such key pair."""
        ...

    @call(since="1.7")
    def update_quota_set(self, ctx: RequestContext, project_id: str, limits: dict[str, int], force: bool) -> None:
        """Set these limits of a project; -1 means no limit. Raises BadRequest without `force` if a limit is below what
        is used.
        """
        ...

    @call(since="1.7")
    def delete_quota_set(self, ctx: RequestContext, project_id: str, resources: tuple[str, ...]) -> None:
        """Restore the defaults of these resources for the project."""
        ...

    @call(since="1.7")
    def update_quota_class_set(self, ctx: RequestContext, class_name: str, limits: dict[str, int]) -> None:
        """Set these limits of a class. The limits of `default` apply to projects without limits of their own."""
        ...

    @call(since="1.7")
    def create_network(self, ctx: RequestContext, network: Network) -> Network:
        """Raises SegmentInUse if another network has its physical network, or this VLAN of it."""
        ...

    @call(since="1.7")
    def update_network(self, ctx: RequestContext, network: Network) -> Network:
        """Replace the fields that may change. Raises RevisionNumberConstraintFailed if the network has changed since it
        was read.
        """
        ...

    @call(since="1.7")
    def delete_network(self, ctx: RequestContext, network_id: str) -> None:
        """Delete the network with its subnets. Raises NetworkInUse if it has ports."""
        ...

    @call(since="1.7")
    def create_subnet(self, ctx: RequestContext, subnet: Subnet, any_range: bool = False) -> Subnet:
        """`any_range`: see `Subnets.create`. Raises OverlappingSubnets if another subnet has addresses of its range."""
        ...

    @call(since="1.7")
    def update_subnet(self, ctx: RequestContext, subnet: Subnet) -> Subnet:
        """Same as `update_network`. Raises IpAddressAlreadyAllocated if a port has the address of the gateway."""
        ...

    @call(since="1.7")
    def delete_subnet(self, ctx: RequestContext, subnet_id: str) -> None:
        """Raises SubnetInUse if ports have addresses of it."""
        ...

    @call(since="1.7")
    def create_port(self, ctx: RequestContext, port: Port, fixed_ips: tuple[AddressRequest, ...] | None) -> Port:
        """`fixed_ips` None: the next free address of each IP version. If `mac_address` is empty, a free one is chosen.

        Raises IpAddressGenerationFailure if no address is left. Raises IpAddressAlreadyAllocated or MacAddressInUse if
        another port has the address.
        """
        ...

    @call(since="1.7")
    def update_port(self, ctx: RequestContext, port: Port, fixed_ips: tuple[AddressRequest, ...] | None) -> Port:
        """Same as `update_network`. `fixed_ips` None: the addresses stay. Raises the same errors as `create_port`."""
        ...

    @call(since="1.7")
    def delete_port(self, ctx: RequestContext, port_id: str) -> None:
        """Delete the port and free its addresses."""
        ...

    @call(since="1.7")
    def ensure_default_security_group(self, ctx: RequestContext, project_id: str) -> None:
        """Make the default group of the project if it has none. Idempotent."""
        ...

    @call(since="1.7")
    def create_security_group(self, ctx: RequestContext, group: SecurityGroup) -> SecurityGroup:
        """Make a group with rules that allow all outgoing traffic. Raises Forbidden if the quota is used up."""
        ...

    @call(since="1.7")
    def update_security_group(self, ctx: RequestContext, group: SecurityGroup) -> SecurityGroup:
        """Change the group's name and description; otherwise same as `update_network`."""
        ...

    @call(since="1.7")
    def delete_security_group(self, ctx: RequestContext, group_id: str) -> None:
        """Delete the group, and the rules of other groups that refer to it. Raises SecurityGroupInUse if a port has
        it.
        """
        ...

    @call(since="1.7")
    def create_security_group_rule(self, ctx: RequestContext, rule: SecurityGroupRule) -> SecurityGroupRule:
        """Raises SecurityGroupRuleExists if its group has such a rule already."""
        ...

    @call(since="1.7")
    def delete_security_group_rule(self, ctx: RequestContext, rule_id: str) -> None:
        """The change applies at once to ports in use."""
        ...

    @call
    def create_image(self, ctx: RequestContext, image: Image) -> Image: ...

    @call
    def update_image(self, ctx: RequestContext, image: Image, expected_status: str) -> Image:
        """Replace the row if it has the expected status. Raises Conflict otherwise."""
        ...

    @call(since="1.7")
    def change_image(self, ctx: RequestContext, expected: Image, image: Image) -> Image:
        """Replace the record if it still equals the expected one. Raises ImageChanged otherwise. Its times of creation
        and change are not compared.
        """
        ...

    @call
    def delete_image(self, ctx: RequestContext, image_id: str) -> None: ...

    @call(since="1.7")
    def add_image_member(self, ctx: RequestContext, image_id: str, member_id: str) -> ImageMember:
        """Share the image with a project, which then still has to accept it. Raises Conflict if the image is shared
        with it already.
        """
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
        """`None` leaves a field unchanged. Enabling clears the reason."""
        ...

    @call(since="1.6")
    def delete_service(self, ctx: RequestContext, service_uuid: str) -> None:
        """Delete a service; for a compute also its nodes, providers and memberships of aggregates. A process that still
        runs registers again.

        Raises NotFound if there is no such service, Conflict if its host has instances, migrations in progress or
        builds.
        """
        ...

    @call(since="1.7", in_safe_mode=True)
    def api_has_seen(self, ctx: RequestContext, place: str, seen: Seen) -> None:
        """An API, at this place, has seen more of its cloud than the database now shows. Idempotent."""
        ...


@called_by(Role.CONSOLEPROXY, topic="conductor_api", topic_since="1.7")
class ForConsoleProxies(Protocol):
    """Calls of console proxies."""

    @call(since="1.7")
    def use_console_token(self, ctx: RequestContext, token: str) -> ConsoleGrant:
        """Returns what the token opens, and uses the token up.

        Raises Forbidden if there is no such token, it has expired or was used, or its server is gone.
        """
        ...


@called_by(Role.METADATA, topic="conductor_api", topic_since="1.7", speaks_for_host=True)
class ForMetadata(Protocol):
    """Calls of a host's metadata service, for its guests on `local` networks. The service identifies a guest by its
    address.
    """

    @call(since="1.7", in_safe_mode=True)
    def metadata_of_address(self, ctx: RequestContext, host: str, address: str) -> GuestMetadata:
        """Raises NotFound if no instance of this host has the address on a `local` network."""
        ...

    @call(since="1.7")
    def leave_password_of_address(self, ctx: RequestContext, host: str, address: str, password: str) -> None:
        """Raises NotFound as `metadata_of_address` does, Conflict if there is a password already, BadRequest if it is
        too long.
        """
        ...


@called_by(Role.METADATA_PROXY, topic="conductor_api", topic_since="1.7")
class ForMetadataProxies(Protocol):
    """Calls of the metadata service for Neutron's proxy. The proxy names the instance and project of a request, and
    signs them.
    """

    @call(since="1.7", in_safe_mode=True)
    def metadata_of_instance(self, ctx: RequestContext, instance_uuid: str, project_id: str) -> GuestMetadata:
        """Raises NotFound if the project has no such server."""
        ...

    @call(since="1.7")
    def leave_password(self, ctx: RequestContext, instance_uuid: str, project_id: str, password: str) -> None:
        """Raises NotFound as `metadata_of_instance` does, Conflict and BadRequest as `leave_password_of_address`
        does.
        """
        ...


@called_by(Role.COMPUTE, Role.SCHEDULER, Role.CONDUCTOR, speaks_for_host=True)
class ForServices(Protocol):
    """Calls of every service. A service identifies itself by host and binary."""

    @call(in_safe_mode=True)
    def register_service(self, ctx: RequestContext, service: Service) -> ServiceInstructions:
        """Insert or refresh the row of (host, binary). Operators alone decide whether it is disabled.

        Raises HostIdentityConflict if the compute is not the one that the host's rows describe. Raises HostInUse if
        another live process serves the host.
        """
        ...

    @call(in_safe_mode=True)
    def heartbeat(
        self, ctx: RequestContext, host: str, binary: str, down_reason: str | None = None
    ) -> ServiceInstructions:
        """The service is alive. `down_reason`: why it still cannot work. Raises NotFound if it is not registered; then
        it should register.
        """
        ...

    @call(since="1.7", in_safe_mode=True)
    def service_has_seen(self, ctx: RequestContext, host: str, binary: str, seen: Seen) -> CloudState | None:
        """The service has seen something of its cloud that the answer to its heartbeat does not show. Returns the state
        of the cloud for this service; None if the conductor does not know it yet. Idempotent.
        """
        ...

    @cast(since="1.6", in_safe_mode=True)
    def service_stopped(self, ctx: RequestContext, host: str, binary: str, process: str) -> None:
        """The process has stopped gracefully, so another process may register for the host at once."""
        ...


@called_by(Role.COMPUTE, speaks_for_host=True)
class ForComputes(Protocol):
    """Calls of computes. Each method names the host that the compute speaks for."""

    @call(in_safe_mode=True)
    def instances_of_host(self, ctx: RequestContext, host: str) -> HostInstances:
        """Returns the instances that this host should have, for `init_host`."""
        ...

    @call(since="1.7", in_safe_mode=True)
    def interfaces_of_host(self, ctx: RequestContext, host: str) -> dict[str, tuple[Vif, ...]]:
        """Returns the interfaces of the host's instances, by instance, with their present rules."""
        ...

    @call(since="1.7")
    def interface_detached(self, ctx: RequestContext, instance_uuid: str, mac_address: str, host: str) -> None:
        """The guest of an instance of this host does not have this interface, whose port is marked for deletion: the
        port is deleted. Idempotent.
        """
        ...

    @call(since="1.7")
    def bind_interfaces(self, ctx: RequestContext, instance_uuid: str, attempt: int, host: str) -> tuple[Vif, ...]:
        """Returns the interfaces of an instance on Neutron networks, after binding them to the host that builds it.
        Idempotent.

        Raises StaleAttempt if the attempt is no longer this host's. Raises PortBindingFailed if the host cannot have
        one of the interfaces. Raises the matching error if Neutron refuses a request.
        """
        ...

    @call(since="1.6", of_no_host=True, in_safe_mode=True)
    def hosts_of_instances(self, ctx: RequestContext, instance_uuids: tuple[str, ...]) -> dict[str, str | None]:
        """Returns {instance uuid: host in its row} for the instances that have a row, deleted or not.

        A compute that is known by its broker user does not get the names of other hosts, but `OTHER_HOST` instead.
        """
        ...

    @call(since="1.8", in_safe_mode=True)
    def report_guests(
        self, ctx: RequestContext, host: str, guests: tuple[GuestMark, ...], number: int = 0
    ) -> GuestsAnswer:
        """Compares all guests of a host with the rows. Changes no row but those of unexpected guests, and removes
        nothing.

        `number`, here and below: rises with each report of the process. A report that is not the latest is ignored. 0:
          the order is not known.

        Raises BadRequest if a mark is not valid or there are too many. Raises DiskFull if there is no room.
        """
        ...

    @call(since="1.8", in_safe_mode=True)
    def report_guest_records(
        self, ctx: RequestContext, host: str, records: tuple[GuestRecord, ...], number: int = 0
    ) -> None:
        """Stores the records that the answer to `report_guests` wanted, and holds the addresses of these guests. Records
        that are not valid, and those of more guests than the host can hold, are left out.
        """
        ...

    @call
    def begin_audit(self, ctx: RequestContext, host: str, view: HypervisorView) -> AuditInputs:
        """First of the audit's two calls: sends the driver's view, and returns what the database has of the node."""
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
        """Second call: write the node, which is inserted on first use, and its provider's inventories and traits, where
        they changed.

        Removes the allocations that deleted instances still have on this provider. Returns the row with its id and
        generation.
        """
        ...

    @call
    def delete_compute_nodes(self, ctx: RequestContext, host: str, nodes: tuple[str, ...]) -> None:
        """The driver no longer reports these nodes (hypervisor host names). Their rows and providers are deleted."""
        ...

    @call
    def save_compute_node(self, ctx: RequestContext, node: ComputeNode) -> ComputeNode:
        """Write usage that changed between audits, because a claim was dropped or an instance was removed."""
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
        """Record the host's claim: write host, node and fitted topology to the instance, and usage and PCI devices to
        the node, in one transaction. `step`: the task_state with which the build begins; None: block_device_mapping.

        Raises StaleAttempt if this attempt is no longer that host's, and ComputeResourcesUnavailable if the topology
        leaves dedicated CPUs without host CPUs. The host must then give the claim back.
        """
        ...

    @call(since="1.6")
    def claim_instances(
        self, ctx: RequestContext, claims: tuple[InstanceClaim, ...], node: ComputeNode
    ) -> tuple[ReportAnswer, ...]:
        """`claim_instance` for several instances in one transaction. Returns an answer for each, in their order.

        `node` holds the usage of all of them. If an answer says that its claim is not written, the host must give that
        claim back and write its node again.
        """
        ...

    @call(since="1.2")
    def claim_move(self, ctx: RequestContext, migration: Migration, node: ComputeNode) -> Migration:
        """Record the destination's claim: its place and topology in the migration, usage and devices in its node.
        Idempotent.

        Raises StaleAttempt if the migration is over or has another destination, and ComputeResourcesUnavailable as
        `claim_instance`.
        """
        ...

    @call(since="1.2")
    def step_move(self, ctx: RequestContext, migration_uuid: str, status: str, host: str) -> Moved:
        """Move the migration on to `status`. With `finished`, `completed` and `done` the instance belongs to the
        destination, with the new size. With `confirmed` the source gives back what it held; with `reverted` and `error`
        the destination does.

        Raises StaleAttempt if the migration's status does not allow that step, or the migration does not concern this
        host.
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
        """Checks that the attempt is still the host's, and records the step (a task_state).

        Raises StaleAttempt if it is not. The host must then stop and clean up.
        """
        ...

    @call(since="1.7")
    def image_token(self, ctx: RequestContext, instance_uuid: str, image_id: str, host: str) -> str:
        """Returns a fresh token for the download of an image that the instance or its open build on this host uses.

        Raises StaleAttempt if neither uses this image on this host.
        """
        ...

    @call(since="1.7")
    def image_upload_token(self, ctx: RequestContext, instance_uuid: str, image_id: str, host: str) -> str:
        """Returns a fresh token for the upload of the image that this host is making from the instance.

        Raises StaleAttempt if it makes no such image. Raises ImageDeleted if the image was deleted meanwhile. Raises
        Conflict if all its bytes have arrived, so that the action is done.
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
        """The domain runs. `node`: the new usage of its node, written as by `save_compute_node`. Idempotent.

        Raises StaleAttempt if the domain must be removed.
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

    @call
    def instance_deleted(self, ctx: RequestContext, instance_uuid: str, host: str) -> None:
        """Domain and disks are gone from this host. Idempotent."""
        ...

    @call(since="1.6")
    def delete_failed(self, ctx: RequestContext, instance_uuid: str, host: str, reason: str, kind: str = "") -> None:
        """The host could not remove the instance. The conductor asks again; users see `kind`. Idempotent."""
        ...

    @call(since="1.7")
    def begin_action(
        self, ctx: RequestContext, instance_uuid: str, action_id: int, host: str, again: bool = False
    ) -> None:
        """Checks that this action is still in progress on this host.

        `again`: the host is in the middle of the action, before a step that changes the guest.

        Raises StaleAttempt if it is not. The host must then leave the instance alone.
        """
        ...

    @call(since="1.7")
    def action_progressed(
        self, ctx: RequestContext, instance_uuid: str, action_id: int, host: str, task_state: str
    ) -> None:
        """The action is in progress and has reached this task state; empty: the state has not changed. Its time limit starts
        anew. Idempotent. Raises StaleAttempt as `begin_action` does.
        """
        ...

    @call(since="1.7")
    def action_succeeded(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        action_id: int,
        host: str,
        power_state: int,
        kept: bool = False,
    ) -> None:
        """The host has done the action. Idempotent; a stale report is ignored.

        `kept`: the guest already was as the action wants it, and was left alone.
        """
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
        """The host could not do the action. Idempotent; a stale report is ignored.

        `power_state`: the guest's state, if it is known.
        `untouched`: nothing has happened to the guest.
        """
        ...

    @call
    def report_power_states(self, ctx: RequestContext, host: str, states: dict[str, int]) -> None:
        """Reports {instance uuid: PowerState} of domains whose state changed. Instances of other hosts are not
        changed.
        """
        ...


@contract
class ConductorApi(ForApi, ForConsoleProxies, ForMetadata, ForMetadataProxies, ForServices, ForComputes, Protocol):
    TOPIC: ClassVar[str] = "conductor"
    VERSION: ClassVar[str] = "1.8"
    HISTORY: ClassVar[dict[str, str]] = {
        "1.0": "first",
        "1.1": "aggregates, server groups, extra specs of flavors",
        "1.2": "NUMA and PCI in claims, moves",
        "1.3": "what an audit found, which domains are of deleted instances",
        "1.4": "previews and capacity",
        "1.5": "how often to audit",
        "1.6": "versions of services; hosts of instances; the end of a process; failed removals; several claims; removing services",
        "1.7": "server actions; changes of servers and flavors; kinds of failures; the topic conductor_api; quotas; key pairs; tokens, changes and members of images; networks, subnets, ports and security groups; consoles; config drives; metadata of guests; what services have seen of their cloud",
        "1.8": "reports of all guests and images that hosts and image stores hold",
    }
