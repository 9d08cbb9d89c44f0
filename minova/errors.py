"""Errors that cross a package's border, each with its HTTP status.

A decision does not raise: its "no" is a value with a reason (`minova.objects.requests.diagnosis`).
"""

import logging


class MinovaError(Exception):
    """Base of all; `code` is the HTTP status that the API answers with."""

    code = 500


class Abandoned(BaseException):
    """The process ends and abandons this work. Not an Exception: no handler undoes the work or reports a failure."""


class BadRequest(MinovaError):
    """The request is wrong. The text names the field and the valid values."""

    code = 400


class Unauthorized(MinovaError):
    code = 401


class Forbidden(MinovaError):
    code = 403


class NotFound(MinovaError):
    """No such resource; the text names its kind and ID."""

    code = 404


class ImageDeleted(NotFound):
    """The image that was to be made from a server was deleted meanwhile."""


class ImageLimitExceeded(MinovaError):
    """One image would have more tags, properties or members than allowed."""

    code = 413


class ImageQuotaExceeded(Forbidden):
    """An image made from a server is larger than what is left of the project's quota."""


class Gone(MinovaError):
    """Older releases of OpenStack had such a resource."""

    code = 410


class Conflict(MinovaError):
    """The resource is not in the state that the change expects, or exists already."""

    code = 409


class GuestAgentNotEnabled(Conflict):
    """The image does not declare that its guests run an agent."""


class GuestSecretMissing(Conflict):
    """The database has no secret of this kind for the guest."""


class GuestNotRunning(Conflict):
    """The operation needs a running guest."""


class ImageChanged(Conflict):
    """The image has changed since the API read it, so the API must compute the change again."""


class StaleAttempt(Conflict):
    """A compute reports on a build attempt that it no longer owns (fence of section 4 of the design). A conductor says so, or a deletion
    has come; the host then reports nothing more. A driver raises DisksOfAnotherHost or GuestIsNewer, which are reported.
    """


class HostIdentityConflict(Conflict):
    """The compute is not the one that its host's rows describe. The text says what to do."""


class HostInUse(Conflict):
    """Another live process serves the host."""


class Superseded(Conflict):
    """The sender no longer serves its host: another process has registered since."""


class StaleClaim(Conflict):
    """A claim has a lower number than its consumer has already seen, or its number has been decided already."""


class ServiceUnavailable(MinovaError):
    """There is no answer now; a later retry may succeed.

    `reason`: for logs and operators, not for users; it may hold addresses. It is not sent to other processes.
    """

    code = 503

    def __init__(self, *arguments: object, reason: str = "") -> None:
        super().__init__(*arguments)
        self.reason = reason


def explained(error: BaseException) -> str:
    """Returns the text of an error for logs and operators."""
    reason = getattr(error, "reason", "")
    return f"{str(error).rstrip('.')}: {reason}" if reason and isinstance(error, ServiceUnavailable) else str(error)


class NoAnswer(ServiceUnavailable):
    """A call was sent, but no answer arrived: the work may or may not have been done. Raised only in the calling
    process and never sent over the bus, because older releases do not know it.
    """


class AnotherCloud(ServiceUnavailable):
    """The called service belongs to another cloud: two clouds use one virtual host of the message broker."""


class BrokerBlocked(ServiceUnavailable):
    """A call was not sent, because the message broker takes no messages (an alarm of its memory or disk). Raised only in the
    calling process and never sent over the bus, because older releases do not know it.
    """


class BrokerAway(ServiceUnavailable):
    """A call was not delivered, because the message broker does not answer. Raised only in the calling process, likewise."""


def level_of(error: Exception) -> int:
    """Returns the level for the line of one failed piece of work. While the broker or the database of this process is away, or the
    broker takes no messages, all work fails, and the log has one line for that already.
    """
    is_logged = isinstance(error, BrokerBlocked | BrokerAway) or (
        isinstance(error, ServiceUnavailable) and bool(error.reason)
    )
    return logging.DEBUG if is_logged else logging.WARNING


class PeerTooOld(ServiceUnavailable):
    """The called service is of an older release and lacks the method or an argument. Use another way, or try again once
    it is upgraded.
    """


class SecretsNotConfigured(ServiceUnavailable):
    """This conductor lacks the key of the secrets of guests. Another conductor may have it."""


class NetworkNotConfigured(ServiceUnavailable):
    """This conductor is not configured for the network service of the server. Another conductor may be."""


class NoNetworkService(MinovaError):
    """No conductor is configured for the network service of the server."""


class ConsoleTypeUnavailable(BadRequest):
    """The host serves no console of this type."""


class ConsolePortsExhausted(MinovaError):
    """The host has no port left for another serial console; another host may have one."""


class NoValidHost(MinovaError):
    """A failed Diagnosis as it is sent over RPC, as in Nova."""


class MaxRetriesExceeded(NoValidHost):
    """Every attempt allowed by `max_attempts` was made and failed."""


class UnsupportedPolicyException(BadRequest):
    """The scheduler's configuration enables nothing that implements the policy of a server group."""


class ComputeResourcesUnavailable(MinovaError):
    """A claim did not fit; the text joins every reason."""


class ImageUnacceptable(MinovaError):
    """The image cannot be booted: wrong format, checksum, size or structure."""

    code = 400


class ImageWithheld(ImageUnacceptable):
    """The image service does not give the bytes of an image any more: it was deleted or deactivated."""


class GuestDataUnacceptable(MinovaError):
    """No config drive can hold the user data or files of a server."""

    code = 400


class HardwareNotOffered(MinovaError):
    """The guest needs hardware that this host's hypervisor does not have; another host may have it."""


class InterfaceNotOffered(HardwareNotOffered):
    """Neutron has bound a port in a way that the host cannot plug."""


class InterfaceAttachFailed(MinovaError):
    """A running guest cannot take an interface."""


class InterfaceDetachFailed(MinovaError):
    """A running guest does not release an interface."""


class GuestAgentRefused(MinovaError):
    """The agent in the guest has refused a command. `agent_reason`: its own words, in one line; empty if it gave none."""

    def __init__(self, text: str = "", agent_reason: str = "") -> None:
        super().__init__(text)
        self.agent_reason = agent_reason


class QuiesceFailed(GuestAgentRefused):
    """The guest's file systems could not be frozen for a snapshot whose image requires that.

    Not a Conflict, because Conflict means that the image was already uploaded.
    """


class GuestAgentUnresponsive(MinovaError):
    """The agent in the guest does not answer."""

    code = 501


class UnknownDiskFormat(MinovaError):
    """minova has not recorded the format of this disk, so it does not read the disk."""


class HypervisorError(MinovaError):
    """The hypervisor, a program or a disk of the host could not do it; the text names the operation. A repetition would
    most likely fail again.
    """

    code = 503


class HypervisorUnavailable(HypervisorError):
    """The hypervisor does not answer, or the connection to it is lost. Whether the operation was done is not known."""


class GuestBusy(HypervisorError):
    """A job of the hypervisor, such as a save of the guest's memory, occupies the guest. The operation has not begun; try
    again once the job has ended.

    Not a Conflict, because Conflict means that an image was already uploaded.
    """


class GuestJobRuns(GuestBusy):
    """The job that occupies the guest is known by its name and goes on, so its end is worth a wait of any length."""


class GuestStateUnexpected(HypervisorError):
    """The guest is not in a state in which the operation is possible: it is off, for example."""


class GuestMissing(HypervisorError):
    """The host does not have the guest, or not all of its disks."""


class LiveMigrationAborted(HypervisorError):
    """A live migration has ended before the guest left, because its abort was requested; the guest continues to run where it was."""


class PostCopyFailed(HypervisorError):
    """The guest runs at its destination, but the rest of its memory does not arrive. Neither side can continue it."""


class GuestIsNewer(GuestStateUnexpected):
    """The host has a guest of a later attempt: the database that requests this one is older. The guest stays."""


class DisksOfAnotherHost(HypervisorError):
    """Another host, or a later attempt, has the disks of the guest."""


class GuestDiskFull(GuestStateUnexpected):
    """The guest stands still because a disk of its host is full."""


class GuestDiskFailed(GuestStateUnexpected):
    """The guest stands still because its disk cannot be read or written."""


class GuestAsleep(GuestStateUnexpected):
    """The guest has put itself to sleep (ACPI S3), and cannot be woken."""


class BaseImageLost(HypervisorError):
    """The image on which a server's disk is based is gone from its host and cannot be fetched again. The text names the
    file.
    """


class SavedMemoryKept(HypervisorError):
    """The operation would lose the guest's saved memory, and its user has not asked for that."""

    @classmethod
    def of_flavor(cls, instance_uuid: str, flavor_name: str) -> "SavedMemoryKept":
        """Returns the error of a move to a flavor for which the memory was not saved."""
        return cls(
            f"The saved memory of instance {instance_uuid} does not fit flavor {flavor_name}. Start the server, or reboot it hard to "
            "lose the memory"
        )


class InvalidSharedStorage(HypervisorError):
    """The disks of an evacuated server are not, or must not be, on storage that its new host shares with the old one."""


class DiskFull(MinovaError):
    """The file system of the instances or images has no space left."""

    code = 507


class InvalidConfiguration(MinovaError):
    """An option has a value that cannot work; the text names group, option and value."""


class SchemaMismatch(MinovaError):
    """The database schema is absent or too old; the text says which command to run."""


# -- networks: the error names are Neutron's, because Neutron clients see them -----------------------------------------


class SecurityGroupNotFound(NotFound):
    pass


class SecurityGroupRuleNotFound(NotFound):
    pass


class NetworkNotFound(NotFound):
    """There is no such network, or the caller may not see it."""


class SubnetNotFound(NotFound):
    """There is no such subnet, or the caller may not see it."""


class PortNotFound(NotFound):
    """There is no such port, or the caller may not see it."""


class InvalidIpForSubnet(BadRequest):
    """No port may have this address in this subnet."""


class AllocationOnAutoAddressSubnet(BadRequest):
    """Ports have the addresses of this subnet that follow from their MAC addresses."""


class InvalidIpForNetwork(BadRequest):
    """No subnet of the network has this address."""


class AddressGroupNotFound(NotFound):
    pass


class AddressesNotFound(NotFound):
    """The address group lacks an address."""


class AddressesAlreadyExist(BadRequest):
    """The address group has an address already."""


class AddressGroupInUse(Conflict):
    """A rule of a security group names the address group."""


class SubnetPoolNotFound(NotFound):
    """There is no such subnet pool, or the caller may not see it."""


class SubnetPoolDeleteError(BadRequest):
    """Subnets have ranges of the subnet pool."""


class SubnetAllocationError(Conflict):
    """The subnet pool has no such free range."""


class SubnetPoolQuotaExceeded(Conflict):
    """The project has as much of the subnet pool as it may have."""


class NetworkSubnetPoolAffinityError(BadRequest):
    """The subnets of a network are not of one subnet pool."""


class SecurityGroupInUse(Conflict):
    """A port has the group, or a rule of another group names it."""


class SecurityGroupRuleExists(Conflict):
    """The group has such a rule already."""


class SecurityGroupCannotRemoveDefault(Conflict):
    """Each project must keep its default group."""


class PortSecurityPortHasSecurityGroup(Conflict):
    """Port security cannot be disabled while the port has security groups."""


class AddressPairAndPortSecurityRequired(Conflict):
    """Address pairs are exceptions to port security, so they need it."""


class InvalidSharedSetting(Conflict):
    """Ports of other projects are on the network, so sharing cannot end."""


class NetworkInUse(Conflict):
    """The network still has ports."""


class SubnetInUse(Conflict):
    """Ports still have addresses of the subnet."""


class NetworkAmbiguous(Conflict):
    """The server may use several networks but names none."""


class PortInUse(Conflict):
    """A server uses the port."""


class PortNotSupported(BadRequest):
    """A Neutron port requires a feature that minova does not support."""


class PortBindingFailed(MinovaError):
    """No Neutron agent has bound the port to the host."""


class VirtualInterfaceCreateException(MinovaError):
    """Neutron has not reported in time that it has wired the interfaces of a server."""


class PortBound(Conflict):
    """A server uses the port, so its MAC address cannot be changed."""


class OverlappingSubnets(Conflict):
    """Another subnet has addresses of the range."""


class OverlappingAllocationPools(Conflict):
    """Two pools of a subnet have the same address."""


class GatewayConflictWithAllocationPools(Conflict):
    """An allocation pool contains the gateway's address."""


class IpAddressAlreadyAllocated(Conflict):
    """Another port, or the gateway, has the address."""


class MacAddressInUse(Conflict):
    """Another port has the MAC address."""


class SegmentInUse(Conflict):
    """Another network has this physical network, or this VLAN of it."""


class AgentNotFound(NotFound):
    """There is no such agent."""


class TagResourceNotFound(NotFound):
    """There is no resource to tag."""


class TagNotFound(NotFound):
    """The resource does not have the tag."""


class PreconditionFailed(MinovaError):
    """The resource has another revision than the request requires."""

    code = 412


class DuplicateSecurityGroupRuleInPost(Conflict):
    """One request makes the same rule twice."""


class RevisionNumberConstraintFailed(Conflict):
    """The record has changed since it was read."""


class IpAddressGenerationFailureNoMatchingSubnet(Conflict):
    """All subnets of the network are for ports with other device owners."""


class IpAddressGenerationFailure(MinovaError):
    """No address is left."""

    code = 503
