"""Interfaces that a server gets and loses. As in Nova, these actions have no task states. Each changes rows of ports,
and no other action may see these changes half done. Pure.
"""

from minova.objects.actions.action import ServerAction
from minova.objects.servers.states import VmState

ATTACH_INTERFACE = ServerAction(
    kind="attach_interface",
    done="given the interface",
    key="",
    vm_states=frozenset({VmState.ACTIVE, VmState.PAUSED, VmState.STOPPED}),
    progress=(),
    ends_in=None,
    exclusive=True,
    notifies_errors=True,
    event="compute_attach_interface",
    policy="os-attach-interfaces:create",
    notification="interface_attach",
)
DETACH_INTERFACE = ServerAction(
    kind="detach_interface",
    done="relieved of the interface",
    key="",
    vm_states=ATTACH_INTERFACE.vm_states,
    progress=(),
    ends_in=None,
    exclusive=True,
    event="compute_detach_interface",
    policy="os-attach-interfaces:delete",
    notification="interface_detach",
)
ACTIONS = (
    ATTACH_INTERFACE,
    DETACH_INTERFACE,
)
