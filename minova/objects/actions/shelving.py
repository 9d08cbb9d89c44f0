"""Shelved servers. Pure."""

from minova.objects.actions.action import ServerAction
from minova.objects.actions.images import CREATE_IMAGE
from minova.objects.servers.states import TaskState, VmState

SHELVE = ServerAction(
    kind="shelve",
    done="shelved",
    vm_states=CREATE_IMAGE.vm_states,
    progress=(
        TaskState.SHELVING,
        TaskState.SHELVING_IMAGE_PENDING_UPLOAD,
        TaskState.SHELVING_IMAGE_UPLOADING,
    ),
    reported=(TaskState.SHELVING_IMAGE_PENDING_UPLOAD, TaskState.SHELVING_IMAGE_UPLOADING),
    ends_in=VmState.SHELVED,
    makes_image=True,
    opens_disk=True,
    policy="os-shelve:shelve",
)
SHELVE_OFFLOAD = ServerAction(
    kind="shelve_offload",
    done="removed from its host",
    name="shelveOffload",
    vm_states=frozenset({VmState.SHELVED}),
    progress=(TaskState.SHELVING_OFFLOADING,),
    ends_in=VmState.SHELVED_OFFLOADED,
    accepted_late=True,
    redefines_domain=True,
    policy="os-shelve:shelve_offload",
)
# For a server that is still on its host. A server without a host is scheduled and built:
# `conductor/actions/kinds/shelving.py`.
UNSHELVE = ServerAction(
    kind="unshelve",
    done="unshelved",
    vm_states=frozenset({VmState.SHELVED}),
    progress=(TaskState.UNSHELVING,),
    ends_in=VmState.ACTIVE,
    accepted_late=True,
    redefines_domain=True,
    opens_disk=True,
    policy="os-shelve:unshelve",
)
ACTIONS = (
    SHELVE,
    SHELVE_OFFLOAD,
    UNSHELVE,
)
