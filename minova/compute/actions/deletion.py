"""Soft deletions on the host, and their restoration: the guest is off meanwhile, and keeps its disks."""

from collections.abc import Mapping

from minova.compute.actions.action_run import Operation
from minova.compute.actions.power import GuestPower
from minova.objects.actions.deletion import RESTORE, SOFT_DELETE


class GuestDeletion:
    def __init__(self, power: GuestPower) -> None:
        self._power = power

    def operations(self) -> Mapping[str, Operation]:
        return {SOFT_DELETE.kind: self._power.stop, RESTORE.kind: self._power.start}
