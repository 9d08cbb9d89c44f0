"""What a host has of a guest that migrates, by libvirt's states."""

from typing import NamedTuple

import libvirt
import pytest

from minova.objects.servers.live_migration import GuestSide
from minova.virt.libvirt.guest_state.sides import side_of

# libvirt 9.2 and later; older ones have no name for it.
PAUSED_API_ERROR = 14


class Domain(NamedTuple):
    reason: int

    def state(self) -> tuple[int, int]:
        return libvirt.VIR_DOMAIN_PAUSED, self.reason


@pytest.mark.parametrize("reason", [libvirt.VIR_DOMAIN_PAUSED_MIGRATION, PAUSED_API_ERROR])
def test_bug_guest_that_its_held_disks_kept_paused_counted_as_one_in_use(reason: int) -> None:
    """With libvirt 9.2 the resolver took it for a second guest, and paused both."""
    assert side_of(Domain(reason), held=True) is GuestSide.PAUSED_BY_MIGRATION


def test_a_guest_that_another_call_has_left_paused_is_in_use() -> None:
    assert side_of(Domain(PAUSED_API_ERROR)) is GuestSide.PAUSED
    assert side_of(Domain(libvirt.VIR_DOMAIN_PAUSED_USER), held=True) is GuestSide.PAUSED
