"""Errors that cross a package's border, each with its HTTP status.

A decision does not raise: its "no" is a value with a reason (`minova.objects.diagnosis`).
"""


class MinovaError(Exception):
    """Base of all; `code` is the HTTP status that the API answers with."""

    code = 500


class BadRequest(MinovaError):
    """The request is wrong: the text names the field and what is valid."""

    code = 400


class Unauthorized(MinovaError):
    code = 401


class Forbidden(MinovaError):
    code = 403


class NotFound(MinovaError):
    """No such resource; the text names its kind and ID."""

    code = 404


class ImageDeleted(NotFound):
    """An image that was to be made of a server was deleted meanwhile."""


class ImageLimitExceeded(MinovaError):
    """More tags, properties or members than one image may have."""

    code = 413


class ImageQuotaExceeded(Forbidden):
    """An image that was made of a server is larger than what the project's quota leaves."""


class Gone(MinovaError):
    """There was such a resource in older releases of OpenStack."""

    code = 410


class Conflict(MinovaError):
    """The resource is not in the state that the change expects, or exists already."""

    code = 409


class GuestAgentNotEnabled(Conflict):
    """The image does not say that its guests run an agent."""


class GuestNotRunning(Conflict):
    """Its guest would have to run for that."""


class ImageChanged(Conflict):
    """An image is not any more as the API read it: what was to become of it is to be worked out anew."""


class StaleAttempt(Conflict):
    """A compute reports on a build attempt that is no longer its own (fence of section 4 of the design)."""


class HostIdentityConflict(Conflict):
    """A compute that is not the one that its host's rows describe; the text says what to do."""


class HostInUse(Conflict):
    """Another process that is alive serves the host."""


class Superseded(Conflict):
    """The sender no longer serves its host: another process has registered since."""


class StaleClaim(Conflict):
    """An allocation with a lower claim number than its consumer has already seen."""


class ServiceUnavailable(MinovaError):
    """No answer now; trying again later may help."""

    code = 503


class NoAnswer(ServiceUnavailable):
    """A call was sent, and its answer did not come: the work may have been done or not. It is raised in the process that
    asked, and never sent over the bus: older releases do not know it.
    """


class PeerTooOld(ServiceUnavailable):
    """The service that was asked is of an older release and lacks the method or an argument: use another way, or try again
    once it is upgraded.
    """


class NetworkNotConfigured(ServiceUnavailable):
    """The conductor that was asked knows nothing of the service that has the networks of the server. Another conductor may."""


class NoNetworkService(MinovaError):
    """No conductor knows the service that has the networks of the server."""


class ConsoleTypeUnavailable(BadRequest):
    """The host serves no such console."""


class ConsolePortsExhausted(MinovaError):
    """No port is left on the host for another serial console; another host may have one."""


class NoValidHost(MinovaError):
    """The form of a failed Diagnosis over RPC, as in Nova."""


class MaxRetriesExceeded(NoValidHost):
    """Every attempt allowed by `max_attempts` was made and failed."""


class UnsupportedPolicyException(BadRequest):
    """Nothing that the scheduler is configured to run serves the policy of a server group."""


class ComputeResourcesUnavailable(MinovaError):
    """A claim did not fit; the text joins every reason."""


class ImageUnacceptable(MinovaError):
    """An image that cannot be booted from: wrong format, checksum, size or structure."""

    code = 400


class GuestDataUnacceptable(MinovaError):
    """User data or files of a server that no config drive can hold."""

    code = 400


class HardwareNotOffered(MinovaError):
    """The guest asks for hardware that this host's hypervisor does not have; another host may."""


class InterfaceNotOffered(HardwareNotOffered):
    """Neutron has bound a port in a way that the host cannot plug."""


class InterfaceAttachFailed(MinovaError):
    """A guest cannot take an interface while it runs."""


class InterfaceDetachFailed(MinovaError):
    """A guest does not let go of an interface while it runs."""


class QuiesceFailed(MinovaError):
    """The guest's file systems could not be held still for a snapshot whose image requires that.

    No Conflict: that says that an image was uploaded before.
    """


class GuestAgentUnresponsive(MinovaError):
    """The agent in the guest does not answer."""

    code = 501


class UnknownDiskFormat(MinovaError):
    """A disk of which minova wrote down no format: it is not read."""


class HypervisorUnavailable(MinovaError):
    """libvirt does not answer. The text carries the operation."""

    code = 503


class DiskFull(MinovaError):
    """No space on the file system of the instances or images."""

    code = 507


class InvalidConfiguration(MinovaError):
    """An option has a value that cannot work; the text names group, option and value."""


class SchemaMismatch(MinovaError):
    """The database schema is absent or too old; the text says which command to run."""


# -- networks: the names are Neutron's, whose clients are shown them ----------------------------------------------------


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


class InvalidIpForNetwork(BadRequest):
    """No subnet of the network has this address."""


class SecurityGroupInUse(Conflict):
    """A port has the group, or a rule of another group names it."""


class SecurityGroupRuleExists(Conflict):
    """The group has such a rule already."""


class SecurityGroupCannotRemoveDefault(Conflict):
    """Each project keeps its default group."""


class PortSecurityPortHasSecurityGroup(Conflict):
    """Port security cannot end while the port has security groups."""


class AddressPairAndPortSecurityRequired(Conflict):
    """Address pairs are exceptions of port security."""


class InvalidSharedSetting(Conflict):
    """Ports of other projects are on the network."""


class NetworkInUse(Conflict):
    """Ports are on the network."""


class SubnetInUse(Conflict):
    """Ports have addresses of the subnet."""


class NetworkAmbiguous(Conflict):
    """A server may be on several networks, and names none."""


class PortInUse(Conflict):
    """A server has the port."""


class PortNotSupported(BadRequest):
    """A port in Neutron asks for what minova does not give."""


class PortBindingFailed(MinovaError):
    """No agent of Neutron has bound the port to the host."""


class VirtualInterfaceCreateException(MinovaError):
    """Neutron has not said in time that it has wired the interfaces of a server."""


class PortBound(Conflict):
    """A server has the port, whose MAC address can then not be changed."""


class OverlappingSubnets(Conflict):
    """Another subnet has addresses of the range."""


class OverlappingAllocationPools(Conflict):
    """Two pools of a subnet have the same address."""


class GatewayConflictWithAllocationPools(Conflict):
    """The gateway's address would be given to a port."""


class IpAddressAlreadyAllocated(Conflict):
    """Another port, or the gateway, has the address."""


class MacAddressInUse(Conflict):
    """Another port has the MAC address."""


class SegmentInUse(Conflict):
    """Another network has this physical network, or this VLAN of it."""


class RevisionNumberConstraintFailed(Conflict):
    """The record has changed since it was read."""


class IpAddressGenerationFailure(MinovaError):
    """No address is left."""

    code = 503
