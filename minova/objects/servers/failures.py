"""Why something failed: a kind with a fixed text for people, and all details for administrators. Pure.

    host: error --kind_of--> kind, details --report--> conductor: Failure --> fault and event in the tables --> API
                                                                                      people: the fixed text of the kind
                                                                                      administrators: the details, too

Details contain names of hosts, paths and programs, and messages of libvirt (CVE-2019-14433), so texts for users contain
no part of them. A host reports the kind as one of these words. A kind that is not in the table, or comes from an older
release, has the text of UNKNOWN.
"""

from collections.abc import Mapping, Sequence

import msgspec

from minova import errors

UNKNOWN = "The host could not do it. An administrator sees the reason."
INTERNAL_ERROR = "InternalError"
# Texts for users, by kind: the name of an error class, or of a failure that the conductor itself detects.
TEXTS: Mapping[str, str] = {
    "ImageUnacceptable": "The image cannot be booted: it is damaged, unsafe, not of its declared format, or does not fit the flavor.",
    "BadRequest": "The request asks for something that no host can do.",
    "GuestDataUnacceptable": "The user data or files of the server cannot be written to a config drive.",
    "HardwareNotOffered": "The host does not offer the hardware that the image or the flavor asks for.",
    "ComputeResourcesUnavailable": "The host has no room left for the server.",
    "DiskFull": "There is no disk space left on the host.",
    "HypervisorError": "The hypervisor of the host could not do it.",
    # Hosts of 0.1.0 report all errors of the hypervisor as this kind.
    "HypervisorUnavailable": "The hypervisor of the host could not do it.",
    "GuestBusy": "Another operation on the guest has not ended yet.",
    "GuestStateUnexpected": "The guest is not in a state in which this is possible.",
    "GuestIsNewer": "The host has a guest of the server that is newer than the database.",
    "GuestMissing": "A host that must have a copy of the server has none. Nothing was removed.",
    "DisksOfAnotherHost": "Another host has the disks of the server.",
    "BaseImageLost": "The image on which the disk of the server is based is gone from its host and from the image service.",
    "InvalidSharedStorage": "The disks of the server are not on storage that its new host shares with the old one.",
    "SavedMemoryKept": "The memory of the guest is saved, and this would lose it. Start or unshelve the server first.",
    "ServiceUnavailable": "Another service did not answer the host.",
    "NotFound": "The host does not know the server.",
    "ImageDeleted": "The image was deleted meanwhile.",
    "ImageQuotaExceeded": "The quota of the project does not allow another image of this size.",
    "Conflict": "The server is in use by another operation on the host.",
    "NoNetworkService": "The network service of the server is not configured.",
    "PortBindingFailed": "The network service could not bind a port of the server to the host.",
    "VirtualInterfaceCreateException": "The network service did not wire the interfaces of the server in time.",
    "PortNotSupported": "A port of the server asks for SR-IOV, minimum bandwidth or a trunk, which are not supported.",
    "InterfaceNotOffered": "The host cannot plug an interface in the way in which the network service has bound it.",
    "PortInUse": "A port of the server is in use by another server.",
    "PortNotFound": "A port of the server is not there any more.",
    "IpAddressAlreadyAllocated": "An address of the server is in use.",
    "IpAddressGenerationFailure": "No address is left on a network of the server.",
    "GuestAgentNotEnabled": "The agent in the guest is not enabled.",
    "GuestAgentUnresponsive": "The agent in the guest does not answer.",
    "GuestAgentRefused": "The agent in the guest refuses it.",
    "GuestNotRunning": "The guest is not running.",
    "GuestDiskFull": "The guest stands still, because a disk of its host is full.",
    "GuestDiskFailed": "The guest stands still, because its disk cannot be read or written.",
    "GuestAsleep": "The guest stands still, because it has put itself to sleep.",
    "GuestWatchdog": "The guest stands still, because its watchdog has stopped it.",
    "GuestPanicked": "The operating system of the guest has crashed.",
    "GuestMigrationBroken": "The guest stands still, because its migration broke off.",
    "GuestPausedByOther": "The guest stands still, because another tool than minova has paused it.",
    "GuestCrashed": "The virtual machine of the guest has crashed, or was killed.",
    "QuiesceFailed": "The file systems of the guest could not be held still.",
    "LiveMigrationAborted": "The live migration was aborted.",
    "PostCopyFailed": "The memory of the guest was lost on its way to the new host.",
    "PeerTooOld": "The host runs an older release, which cannot do it.",
    INTERNAL_ERROR: "An internal error occurred on the host. An administrator sees the reason.",
    "HostDown": "The host does not answer.",
    "HostTooSlow": "The host did not report in time.",
    "Interrupted": "Another action was requested meanwhile.",
    "ResultUnknown": "The host was interrupted. Whether it was done is not known.",
    "BuildTimeout": "The server was not built in time.",
    "NoScheduler": "No scheduler answered in time.",
    "UnsupportedPolicyException": "No scheduler serves the policy of the server group.",
    "SchedulingFailed": "The scheduler failed. An administrator sees the reason.",
}
# Failures that every host would have: no other host is tried.
CAUSED_BY_REQUEST = frozenset(
    {
        "ImageUnacceptable",
        "GuestDataUnacceptable",
        "BadRequest",
        "PortInUse",
        "PortNotSupported",
        "PortNotFound",
        "IpAddressAlreadyAllocated",
        "IpAddressGenerationFailure",
        "NoNetworkService",
        # As in Nova, which then gives up.
        "VirtualInterfaceCreateException",
    }
)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """`text`: for users, if it differs from that of the kind. It consists of fixed texts, values of the request itself, and
    words of the guest's own agent.
    """

    kind: str
    details: str
    text: str = ""

    @property
    def message(self) -> str:
        return self.text or text_of(self.kind)


def text_of(kind: str | None) -> str:
    """Returns the fixed text for users; `kind` None: an older release has recorded no kind."""
    return TEXTS.get(kind or "", UNKNOWN)


def said_by_agent(kind: str, agent_reason: str) -> str:
    """Returns the text for users of a refusal by the guest's agent; empty if the agent gave no reason."""
    return f"{text_of(kind)} It says: {agent_reason.rstrip('.')}." if agent_reason else ""


def kind_of(error: Exception) -> str:
    """Returns the name of the error's first class, from its own class upwards, that has a text."""
    if isinstance(error, errors.MinovaError):
        for kind in type(error).__mro__:
            if kind.__name__ in TEXTS:
                return kind.__name__
    return INTERNAL_ERROR


def attempts_text(kinds: Sequence[str | None]) -> str:
    """Returns each reason once, in their order: `There is no disk space left on the host. The host does not answer.`"""
    return " ".join(dict.fromkeys(text_of(kind) for kind in kinds))
