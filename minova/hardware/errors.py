"""Errors in a flavor, an image or an alias. Each is a 400 and has the name of Nova's exception."""

from minova import errors


class Invalid(errors.BadRequest):
    """A list of CPUs that cannot be read."""


class MalformedValue(Invalid):
    """A value that is no number, no known word, or not of the form NAME:COUNT. Nova does not catch Python's own error
    here.
    """

    nova_name = "ValueError"


class InvalidRequest(Invalid):
    """Two contradicting requests for the same CPUs."""


class InvalidCPUAllocationPolicy(Invalid):
    """hw:cpu_policy is none of dedicated, shared, mixed."""


class ImageCPUPinningForbidden(Invalid):
    """hw_cpu_policy of the image asks for more pinning than the flavor allows."""


class InvalidCPUThreadAllocationPolicy(Invalid):
    """hw:cpu_thread_policy is none of prefer, isolate, require."""


class ImageCPUThreadPolicyForbidden(Invalid):
    """hw_cpu_thread_policy of the image differs from the flavor's."""


class CPUThreadPolicyConfigurationInvalid(Invalid):
    """A thread policy without pinned CPUs."""


class InvalidEmulatorThreadsPolicy(Invalid):
    """hw:emulator_threads_policy is neither share nor isolate."""


class BadRequirementEmulatorThreadsPolicy(Invalid):
    """Isolated emulator threads without pinned CPUs."""


class RealtimeConfigurationInvalid(Invalid):
    """Realtime CPUs without pinned CPUs."""


class RealtimeMaskNotFoundOrInvalid(Invalid):
    """A realtime mask that leaves no ordinary CPU, or names one that the flavor does not have."""


class RequiredMixedInstancePolicy(Invalid):
    """hw:cpu_dedicated_mask without the mixed policy."""


class RequiredMixedOrRealtimeCPUMask(Invalid):
    """The mixed policy with no mask, or with both."""


class InvalidMixedInstanceDedicatedMask(Invalid):
    """hw:cpu_dedicated_mask must leave a pinned and a shared CPU, and name only CPUs of the flavor."""


class InvalidNUMANodesNumber(Invalid):
    """hw:numa_nodes is no number above 0."""


class ImageNUMATopologyForbidden(Invalid):
    """Flavor and image both describe the guest's cells."""


class ImageNUMATopologyIncomplete(Invalid):
    """CPUs and memory are not both given for every cell."""


class ImageNUMATopologyAsymmetric(Invalid):
    """CPUs or memory cannot be divided evenly among the cells."""


class ImageNUMATopologyCPUOutOfRange(Invalid):
    """A cell has a CPU that the flavor does not."""


class ImageNUMATopologyCPUDuplicates(Invalid):
    """A CPU is in two cells."""


class ImageNUMATopologyCPUsUnassigned(Invalid):
    """A CPU is in no cell."""


class ImageNUMATopologyMemoryOutOfRange(Invalid):
    """The cells' memory does not add up to the flavor's."""


class MemoryPageSizeInvalid(Invalid):
    """hw:mem_page_size is neither small, large, any nor a size."""


class MemoryPageSizeForbidden(Invalid):
    """The image asks for a page size where the flavor does not leave it the choice."""


class LockMemoryForbidden(Invalid):
    """Locked memory without a page size."""


class FlavorImageConflict(Invalid):
    """Flavor and image contradict each other, or the image lacks what the flavor requires of it."""


class FlavorImageLockedMemoryConflict(FlavorImageConflict):
    """Flavor and image differ in locked memory."""


class ImageVCPULimitsRangeExceeded(Invalid):
    """The image's maxima of sockets, cores or threads exceed the flavor's."""


class ImageVCPUTopologyRangeExceeded(Invalid):
    """The image prefers more sockets, cores or threads than the maxima allow."""


class ImageVCPULimitsRangeImpossible(Invalid):
    """No topology within the maxima has the flavor's number of CPUs."""


class ImageSerialPortNumberExceedFlavorValue(Invalid):
    """The image asks for more serial ports than the flavor allows."""


class SerialPortNumberLimitExceeded(Invalid):
    """More serial ports than a guest can have."""


class InvalidVIOMMUMachineType(Invalid):
    """The image's machine type cannot have the IOMMU."""


class InvalidVIOMMUArchitecture(Invalid):
    """The image's architecture cannot have the IOMMU."""


class InvalidMachineType(Invalid):
    """The image's machine type does not support the request."""


class StatelessFirmwareRequired(Invalid):
    """This memory encryption works only with stateless firmware."""


class InvalidPCINUMAAffinity(Invalid):
    """hw:pci_numa_affinity_policy is none of required, preferred, legacy, socket."""


class ImagePCINUMAPolicyForbidden(Invalid):
    """hw_pci_numa_affinity_policy of the image differs from the flavor's."""


class PciInvalidAlias(Invalid):
    """[pci] alias cannot be used."""


class PciRequestAliasNotDefined(Invalid):
    """A flavor names an alias that [pci] alias does not define."""


class PciDeviceRequestFailed(errors.MinovaError):
    """The devices to be consumed do not exist."""


class CPUPinningUnknown(errors.MinovaError):
    """A CPU to be pinned is not in the cell."""


class CPUPinningInvalid(errors.MinovaError):
    """A CPU to be pinned is pinned already."""


class CPUUnpinningUnknown(errors.MinovaError):
    """A CPU to be unpinned is not in the cell."""


class CPUUnpinningInvalid(errors.MinovaError):
    """A CPU to be unpinned is not pinned."""


def nova_name(error: Exception) -> str:
    """Returns Nova's name of the exception."""
    return str(getattr(error, "nova_name", type(error).__name__))
