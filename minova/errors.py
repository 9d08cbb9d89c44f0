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


class Conflict(MinovaError):
    """The resource is not in the state that the change expects, or exists already."""

    code = 409


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


class HardwareNotOffered(MinovaError):
    """The guest asks for hardware that this host's hypervisor does not have; another host may."""


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
