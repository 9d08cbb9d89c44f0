"""The state of a guest with its reason, as its hypervisor reports them. Pure.

`objects/actions/guest_changes.py` says what minova does about each.
"""

from enum import StrEnum

import msgspec

from minova.objects.servers.states import PowerState, VmState


class GuestReason(StrEnum):
    """Why a guest is in its power state."""

    NONE = ""
    DISK_FULL = "disk_full"
    DISK_ERROR = "disk_error"
    WATCHDOG = "watchdog"
    PANICKED = "panicked"
    MIGRATION_BROKEN = "migration_broken"
    PAUSED_BY_OTHER = "paused_by_other"
    ASLEEP = "asleep"
    CRASHED = "crashed"
    SHUT_DOWN = "shut_down"
    ENDED_BY_OTHER = "ended_by_other"
    SAVED_BY_OTHER = "saved_by_other"


class GuestState(msgspec.Struct, frozen=True):
    """`detail`: the hypervisor's own words, for administrators."""

    power_state: PowerState
    reason: GuestReason = GuestReason.NONE
    detail: str = ""


# Instances in these states have a guest that should run.
SHOULD_RUN = frozenset({VmState.ACTIVE, VmState.RESCUED, VmState.RESIZED})
# The guest is there, and its CPUs do not run.
STANDING = frozenset({PowerState.PAUSED, PowerState.SUSPENDED})
_REASONS = frozenset(reason.value for reason in GuestReason)


def reason_of(text: str) -> GuestReason:
    """Returns NONE for a reason that a later release has sent."""
    return GuestReason(text) if text in _REASONS else GuestReason.NONE


def stands_still(vm_state: VmState, power_state: PowerState) -> bool:
    """Whether the guest of an instance in these states should run and stands still."""
    return vm_state in SHOULD_RUN and power_state in STANDING
