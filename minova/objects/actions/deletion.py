"""Deletions after which a server can be restored for a while. Pure."""

from minova.objects.actions import images, interfaces, password, power, rebuild, rescue, shelving
from minova.objects.actions.action import ServerAction
from minova.objects.servers.states import TaskState, VmState

# As in Nova, a deletion does not wait for other actions: it ends any action in progress. A server whose disks are being
# removed could not be restored, so it is deleted for good.
ENDED_BY_DELETION = tuple(
    action
    for family in (power, rescue, password, interfaces, images, rebuild, shelving)
    for action in family.ACTIONS
    if not action.leaves_host
)
SOFT_DELETE = ServerAction(
    kind="soft_delete",
    done="deleted",
    name="delete",
    key="",
    vm_states=frozenset(
        {
            VmState.ACTIVE,
            VmState.STOPPED,
            VmState.PAUSED,
            VmState.SUSPENDED,
            VmState.RESCUED,
            VmState.RESIZED,
            VmState.SHELVED,
            VmState.ERROR,
        }
    ),
    task_states=frozenset({None, *(step for action in ENDED_BY_DELETION for step in action.progress)}),
    progress=(TaskState.SOFT_DELETING,),
    ends_in=VmState.SOFT_DELETED,
    irrevocable=True,
)
RESTORE = ServerAction(
    kind="restore",
    done="restored",
    vm_states=frozenset({VmState.SOFT_DELETED}),
    progress=(TaskState.RESTORING,),
    ends_in=VmState.ACTIVE,
    redefines_domain=True,
    opens_disk=True,
    policy="os-deferred-delete:restore",
)
ACTIONS = (
    SOFT_DELETE,
    RESTORE,
)
