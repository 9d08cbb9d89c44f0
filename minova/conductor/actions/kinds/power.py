"""Starts, stops, reboots, pauses and suspensions: only a hard reboot does more than the table says."""

from minova.conductor.actions.engine.kind import ActionKind
from minova.conductor.actions.engine.payload import payload_of
from minova.db.models import Task
from minova.objects.actions.interfaces import ATTACH_INTERFACE
from minova.objects.actions.power import REBOOT_HARD


class HardReboot(ActionKind):
    def co_ending_actions(self, task: Task) -> tuple[int, ...]:
        """HARD redefines the domain with the interface of an attachment, so its end shows whether the interface is
        attached.
        """
        attachment = () if task.kind != ATTACH_INTERFACE.kind or task.action_id is None else (task.action_id,)
        return (*payload_of(task).co_ending_actions, *attachment)


def kinds() -> dict[str, ActionKind]:
    return {REBOOT_HARD.kind: HardReboot()}
