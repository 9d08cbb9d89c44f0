"""Actions of users on an existing server, as in `POST /servers/{id}/action`: one entry for each, in the module of its
family. Pure.

An action's entry controls everything that the services do with it: the API's checks and texts, the task that the
conductor writes, the intermediate states, the message to the compute, the record and the notifications. The values are
Nova's::

    kind          while it is done                                     allowed in
    stop          powering-off                                         active, error
    start         powering-on                                          stopped
    reboot_soft   rebooting, reboot_pending, reboot_started            active
    reboot_hard   rebooting_hard, reboot_pending_hard, ..._started_hard active, stopped, paused, suspended, error; also while
                                                                       the guest is rebooted, paused, suspended or resumed
    pause         pausing                                              active
    unpause       unpausing                                            paused; active, if the guest stands still
    suspend       suspending                                           active
    resume        resuming                                             suspended; active, if the guest stands still
    rescue        rescuing                                             active, stopped, error
    rebuild       rebuilding, rebuild_block_device_mapping, rebuild_spawning   active, stopped, error
    unrescue      unrescuing                                           rescued
    trigger_crash_dump   none                                          active, paused, rescued, resized, error
    attach_interface, detach_interface   none                          active, paused, stopped
    change_password   updating_password                                active
    snapshot      image_snapshot_pending, image_snapshot,              active, stopped, paused, suspended
                  image_pending_upload, image_uploading
    backup        image_backup, image_pending_upload, image_uploading  active, stopped, paused, suspended
    shelve        shelving, shelving_image_pending_upload,             active, stopped, paused, suspended
                  shelving_image_uploading
    shelve_offload   shelving_offloading                               shelved
    unshelve      unshelving (and spawning, on a new host)             shelved; offloaded ones go by a build on a new host
    resize, migrate   resize_prep, resize_migrating,                   active, stopped
                  resize_migrated, resize_finish
    live_migrate   migrating                                           active, paused
    confirm_resize   none                                              resized
    revert_resize   resize_reverting                                   resized
    soft_delete   soft-deleting                                        all but building, deleted and offloaded ones; also while
                                                                       any other action but a restore is in progress
    restore       restoring                                            soft-deleted
"""

from collections.abc import Mapping

from minova.objects.actions import deletion, images, interfaces, moves, password, power, rebuild, rescue, shelving
from minova.objects.actions.action import ServerAction
from minova.objects.servers.states import TaskState

FAMILIES = (power, rescue, rebuild, password, interfaces, images, shelving, moves, deletion)
ACTIONS: tuple[ServerAction, ...] = tuple(action for family in FAMILIES for action in family.ACTIONS)
RUN_BY_HOSTS: tuple[ServerAction, ...] = tuple(action for action in ACTIONS if not action.is_move)
BY_KIND: Mapping[str, ServerAction] = {action.kind: action for action in ACTIONS}
BY_KEY: Mapping[str, tuple[ServerAction, ...]] = {
    key: tuple(action for action in ACTIONS if action.key == key)
    for key in dict.fromkeys(action.key for action in ACTIONS if action.key)
}
MAKE_IMAGES: tuple[ServerAction, ...] = tuple(action for action in ACTIONS if action.makes_image)
# Actions that share a task state have the same notification.
BY_TASK_STATE: Mapping[TaskState, ServerAction] = {step: action for action in ACTIONS for step in action.progress}
