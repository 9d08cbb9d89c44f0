"""The password of the administrator of a guest. Pure."""

from typing import Any

import msgspec

from minova.objects.actions.action import Arguments, ServerAction
from minova.objects.servers.states import TaskState, VmState


class ChangePasswordArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As in Nova, the password may be any text of any length."""

    admin_password: str = msgspec.field(name="adminPass")

    @property
    def sent(self) -> dict[str, Any]:
        return {"admin_password": self.admin_password}


CHANGE_PASSWORD = ServerAction(
    kind="change_password",
    done="given another password",
    name="changePassword",
    arguments=ChangePasswordArguments,
    vm_states=frozenset({VmState.ACTIVE}),
    progress=(TaskState.UPDATING_PASSWORD,),
    ends_in=None,
    secret=True,
    event="compute_set_admin_password",
    policy="os-admin-password",
    notification="",
)
ACTIONS = (CHANGE_PASSWORD,)
