"""Every error of libvirt was HypervisorUnavailable: a guest that was busy or off counted as a libvirt that is away."""

import libvirt
import pytest

from minova import errors
from minova.virt.libvirt.error_codes import meaning
from tests.fakes.libvirt_errors import libvirt_error


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        (
            libvirt.VIR_ERR_OPERATION_TIMEOUT,
            "Timed out during operation: cannot acquire state change lock (held by monitor=remoteDispatchDomainManagedSave)",
            errors.GuestBusy,
        ),
        (libvirt.VIR_ERR_RESOURCE_BUSY, "resource busy: the disk is locked by another host", errors.HypervisorError),
        (libvirt.VIR_ERR_BLOCK_COPY_ACTIVE, "block copy still active", errors.GuestBusy),
        (
            libvirt.VIR_ERR_OPERATION_INVALID,
            "Requested operation is not valid: domain is not running",
            errors.GuestStateUnexpected,
        ),
        (libvirt.VIR_ERR_NO_DOMAIN, "Domain not found", errors.NotFound),
        (libvirt.VIR_ERR_NO_CONNECT, "no connection driver available", errors.HypervisorUnavailable),
        (
            libvirt.VIR_ERR_AGENT_UNRESPONSIVE,
            "Guest agent is not responding: QEMU guest agent is not connected",
            errors.GuestAgentUnresponsive,
        ),
        (libvirt.VIR_ERR_CONFIG_UNSUPPORTED, "unsupported configuration: no such model", errors.HardwareNotOffered),
        (libvirt.VIR_ERR_OPERATION_FAILED, "write: No space left on device", errors.DiskFull),
        (libvirt.VIR_ERR_INTERNAL_ERROR, "qemu unexpectedly closed the monitor", errors.HypervisorError),
        (libvirt.VIR_ERR_NO_SUPPORT, "this function is not supported", errors.HypervisorError),
    ],
)
def test_each_code_has_its_meaning(code: int, text: str, expected: type[errors.MinovaError]) -> None:
    assert meaning(libvirt_error(text, code)) is expected


@pytest.mark.parametrize("carrier", [libvirt.VIR_FROM_RPC, libvirt.VIR_FROM_REMOTE])
@pytest.mark.parametrize("code", [libvirt.VIR_ERR_INTERNAL_ERROR, libvirt.VIR_ERR_SYSTEM_ERROR])
def test_lost_connection_is_told_by_the_part_of_libvirt_that_carries_calls(code: int, carrier: int) -> None:
    error = libvirt_error("internal error: client socket is closed", code)
    assert meaning(error) is errors.HypervisorError
    error.err = (code, carrier, *error.err[2:])
    assert meaning(error) is errors.HypervisorUnavailable


def test_busy_guest_is_no_conflict_because_a_conflict_counts_as_an_upload_made_before() -> None:
    assert not issubclass(errors.GuestBusy, errors.Conflict)
