"""What an entry of the table of server actions says of states, and what each action does with a guest."""

from typing import Any

import msgspec
import pytest

from minova.objects.actions.action import ServerAction
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.actions.images import CREATE_BACKUP, CREATE_IMAGE, CreateBackupArguments
from minova.objects.actions.interfaces import ATTACH_INTERFACE
from minova.objects.actions.power import (
    PAUSE,
    REBOOT_HARD,
    REBOOT_SOFT,
    RESUME,
    START,
    STOP,
    TRIGGER_CRASH_DUMP,
    UNPAUSE,
    RebootArguments,
)
from minova.objects.actions.rebuild import REBUILD, RebuildArguments
from minova.objects.actions.shelving import SHELVE_OFFLOAD
from minova.objects.actions.table import ACTIONS
from minova.objects.catalogue.image import Image
from minova.objects.servers.states import PowerState, TaskState, VmState

# By what an action is or does; an action that is in none of these is a plain one.
TRAITS = {
    # Another interrupt would spoil the dump that the guest writes.
    "not repeatable": {"trigger_crash_dump"},
    "exclusive": {"attach_interface", "detach_interface"},
    "secret": {"change_password"},
    "makes_image": {"backup", "shelve", "snapshot"},
    "ignores_lock": {"backup", "snapshot"},
    "wakes": {"resume", "unpause"},
    "notifies_errors": {"attach_interface", "reboot_hard", "reboot_soft", "rebuild"},
    "changes_image": {"rebuild"},
    "irrevocable": {"soft_delete"},
    "is_move": {"confirm_resize", "live_migrate", "migrate", "resize", "revert_resize"},
    "accepted_late": {
        *("start", "stop", "reboot_soft", "reboot_hard", "pause", "unpause", "suspend", "resume"),
        *("rescue", "unrescue", "shelve_offload", "unshelve"),
    },
    # Those after which the domain of the guest is another one.
    "redefines_domain": {
        *("start", "reboot_hard", "rebuild", "rescue", "unrescue", "restore", "shelve_offload", "unshelve"),
    },
    # Those during which QEMU or a copy has the disks open.
    "opens_disk": {
        *("start", "reboot_soft", "reboot_hard", "resume", "rescue", "unrescue", "restore", "unshelve"),
        *("backup", "snapshot", "shelve"),
    },
}


@pytest.mark.parametrize("trait", TRAITS)
def test_traits(trait: str) -> None:
    name = trait.removeprefix("not ")
    assert {action.kind for action in ACTIONS if getattr(action, name) is (name == trait)} == TRAITS[trait]


def test_every_trait_is_listed() -> None:
    flags = {field.name for field in msgspec.structs.fields(ServerAction) if isinstance(field.default, bool)}
    assert flags == {trait.removeprefix("not ") for trait in TRAITS}


def test_texts_derive_from_kind_and_name() -> None:
    assert (STOP.name, STOP.key, STOP.refused_name, STOP.event) == ("stop", "os-stop", "stop", "compute_stop_instance")
    assert (STOP.policy, STOP.notification) == ("servers:stop", "power_off")
    assert (CREATE_IMAGE.key, CREATE_IMAGE.event) == ("createImage", "compute_snapshot_instance")


@pytest.mark.parametrize(
    ("action", "vm_state", "after"),
    [
        (STOP, VmState.ACTIVE, VmState.STOPPED),
        (CREATE_IMAGE, VmState.PAUSED, VmState.PAUSED),
        (REBUILD, VmState.ERROR, VmState.ACTIVE),
        (REBUILD, VmState.STOPPED, VmState.STOPPED),
    ],
)
def test_the_state_after_success(action: ServerAction, vm_state: VmState, after: VmState) -> None:
    assert action.after_success(vm_state) is after


@pytest.mark.parametrize(
    ("action", "power_state", "untouched", "after"),
    [
        (REBUILD, PowerState.SHUTDOWN, False, VmState.ERROR),
        (REBUILD, None, False, VmState.ERROR),
        (REBUILD, PowerState.RUNNING, False, VmState.ACTIVE),
        (REBUILD, PowerState.SHUTDOWN, True, VmState.ACTIVE),
        (STOP, PowerState.SHUTDOWN, False, VmState.ACTIVE),
    ],
)
def test_the_state_after_a_failure(
    action: ServerAction, power_state: PowerState | None, untouched: bool, after: VmState
) -> None:
    assert action.after_failure(VmState.ACTIVE, power_state, untouched=untouched) is after


MAPPING, SPAWNING = TaskState.REBUILD_BLOCK_DEVICE_MAPPING, TaskState.REBUILD_SPAWNING


@pytest.mark.parametrize(
    ("task_state", "to_the_change", "to_the_end", "changed"),
    [
        (TaskState.REBUILDING, (TaskState.REBUILDING, MAPPING), (TaskState.REBUILDING, MAPPING, SPAWNING), False),
        (MAPPING, (MAPPING,), (MAPPING, SPAWNING), False),
        (SPAWNING, (), (SPAWNING,), True),
    ],
)
def test_an_action_that_changes_the_guest_late_goes_on_from_its_step(
    task_state: TaskState, to_the_change: Any, to_the_end: Any, changed: bool
) -> None:
    assert REBUILD.steps(task_state, changes=False) == to_the_change
    assert REBUILD.steps(task_state, changes=True) == to_the_end
    assert REBUILD.has_changed(task_state) is changed


def test_an_action_enters_no_state_that_its_host_reports() -> None:
    assert CREATE_IMAGE.entered == (TaskState.IMAGE_SNAPSHOT_PENDING, TaskState.IMAGE_SNAPSHOT)
    assert CREATE_BACKUP.entered == (TaskState.IMAGE_BACKUP,)
    assert CREATE_IMAGE.steps(TaskState.IMAGE_SNAPSHOT, changes=False) == (TaskState.IMAGE_SNAPSHOT,)
    assert CREATE_IMAGE.steps(TaskState.IMAGE_UPLOADING, changes=False) == ()
    assert STOP.steps(None, changes=False) == ()
    assert CREATE_IMAGE.has_changed(TaskState.IMAGE_SNAPSHOT) is None
    assert REBUILD.has_changed(TaskState.POWERING_OFF) is None
    assert REBUILD.has_changed(None) is None


def test_which_action_ends_which() -> None:
    assert REBOOT_HARD.ends_others
    assert not STOP.ends_others
    assert REBOOT_HARD.interrupts(PAUSE, TaskState.PAUSING)
    assert not REBOOT_HARD.interrupts(PAUSE, None)
    assert not REBOOT_HARD.interrupts(STOP, TaskState.POWERING_OFF)
    assert not STOP.interrupts(PAUSE, TaskState.PAUSING)
    # Other actions wait for one that is exclusive, except those that end others.
    assert not STOP.interrupts(ATTACH_INTERFACE, None)
    assert REBOOT_HARD.interrupts(ATTACH_INTERFACE, None)
    assert STOP.interrupts(TRIGGER_CRASH_DUMP, None)


def test_an_action_is_in_progress_in_its_own_states_alone() -> None:
    assert STOP.is_in_progress((VmState.ACTIVE, TaskState.POWERING_OFF))
    assert not STOP.is_in_progress((VmState.ACTIVE, None))
    assert not STOP.is_in_progress((VmState.PAUSED, TaskState.POWERING_OFF))
    assert RESUME.is_in_progress((VmState.ACTIVE, TaskState.RESUMING))
    assert TRIGGER_CRASH_DUMP.is_in_progress((VmState.DELETED, TaskState.DELETING))
    assert [action.kind for action in ACTIONS if action.leaves_host] == [SHELVE_OFFLOAD.kind]


@pytest.mark.parametrize(
    ("action", "vm_state", "power_state", "allowed"),
    [
        (UNPAUSE, VmState.PAUSED, PowerState.PAUSED, True),
        (UNPAUSE, VmState.ACTIVE, PowerState.PAUSED, True),
        (UNPAUSE, VmState.ACTIVE, PowerState.RUNNING, False),
        (UNPAUSE, VmState.STOPPED, PowerState.PAUSED, False),
        (START, VmState.ACTIVE, PowerState.PAUSED, False),
    ],
)
def test_a_guest_that_stands_still_can_be_woken(
    action: ServerAction, vm_state: VmState, power_state: PowerState, allowed: bool
) -> None:
    refusal = action.refusal("vm", (vm_state, None), has_host=True, launched=True, power_state=power_state)
    assert (refusal is None) is allowed
    assert (vm_state in UNPAUSE.begins_in) is (vm_state is not VmState.STOPPED)


def test_transitions_lead_through_the_steps_in_their_order() -> None:
    table = REBOOT_SOFT.transitions
    first, second, third = REBOOT_SOFT.progress
    idle, error = (VmState.ACTIVE, None), (VmState.ERROR, None)
    assert table == {
        idle: {(VmState.ACTIVE, first)},
        (VmState.ACTIVE, first): {(VmState.ACTIVE, second), (VmState.ACTIVE, third), idle, error},
        (VmState.ACTIVE, second): {(VmState.ACTIVE, third), idle, error},
        (VmState.ACTIVE, third): {idle, error},
    }
    assert TRIGGER_CRASH_DUMP.transitions == {}


# -- arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["HARD", "Hard", "hard", "SOFT", "Soft", "soft"])
def test_a_reboot_is_soft_or_hard(kind: str) -> None:
    assert RebootArguments(type=kind).variant == kind.upper()
    for wrong in ("sOFT", "", "x" * 99):
        with pytest.raises(ValueError, match=f"type: '{wrong[:64]}' is not one of SOFT and HARD"):
            RebootArguments(type=wrong)


def test_the_image_of_an_action_is_what_it_makes_or_rescues_with() -> None:
    made, rescue = Image(id="made"), Image(id="rescue")
    assert HostArguments().image_id is None
    assert HostArguments(image=made).image_id == "made"
    assert HostArguments(rescue_image=rescue).image_id == "rescue"
    assert HostArguments(image=made, rescue_image=rescue).image_id == "made"
    assert repr(HostArguments(admin_password="secret", rotation=3)) == "HostArguments(rotation, admin_password)"


def fits(of: Any, **values: Any) -> bool:
    try:
        msgspec.convert(values, of)
    except msgspec.ValidationError:
        return False
    return True


BACKUP = {"name": "n", "backup_type": "daily", "rotation": 1}


@pytest.mark.parametrize(
    ("of", "plain", "field", "good", "bad"),
    [
        (CreateBackupArguments, BACKUP, "name", ["x", "x" * 255], ["", "x" * 256]),
        (CreateBackupArguments, BACKUP, "backup_type", ["", "x" * 255], ["x" * 256]),
        (CreateBackupArguments, BACKUP, "rotation", [0, 2147483647], [-1, 2147483648]),
        (
            CreateBackupArguments,
            BACKUP,
            "metadata",
            [{"k" * 255: "v" * 255}, {"a_b:c. -": ""}],
            [{"": ""}, {"k" * 256: ""}],
        ),
        (CreateBackupArguments, BACKUP, "metadata", [{}], [{"k": "v" * 256}, {"/": ""}]),
        (CreateBackupArguments, BACKUP, "colour", [], ["red"]),
        (RebuildArguments, {"imageRef": "i"}, "accessIPv4", ["x", "x" * 255], ["", "x" * 256]),
        (RebuildArguments, {"imageRef": "i"}, "metadata", [{"k": "v" * 255}], [{"k": "v" * 256}]),
        (RebuildArguments, {"imageRef": "i"}, "description", [None, "", "x" * 255], ["x" * 256]),
        (RebuildArguments, {"imageRef": "i"}, "hostname", ["x", "x" * 255], ["", "x" * 256]),
        (RebuildArguments, {"imageRef": "i"}, "key_name", [None, "x", "x" * 255], ["", "x" * 256]),
        (RebuildArguments, {"imageRef": "i"}, "user_data", [None, "x" * 65535], ["x" * 65536]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bounds_of_arguments(of: Any, plain: dict[str, Any], field: str, good: list[Any], bad: list[Any]) -> None:
    assert [value for value in good if not fits(of, **{**plain, field: value})] == []
    assert [value for value in bad if fits(of, **{**plain, field: value})] == []


def test_a_rebuild_keeps_nothing_of_ephemeral_disks_unless_it_is_asked() -> None:
    assert RebuildArguments(image_ref="i").preserve_ephemeral is False
