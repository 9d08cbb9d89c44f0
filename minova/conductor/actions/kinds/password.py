"""The password of the administrator of a guest. The engine stores it nowhere: the action is a `secret` one."""

from collections.abc import Mapping
from typing import Any

import msgspec

from minova.codecs import Decoder
from minova.conductor.actions.engine.kind import ActionKind, parsed
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.actions.password import CHANGE_PASSWORD


class NewPassword(msgspec.Struct, frozen=True, kw_only=True):
    admin_password: str


_PASSWORD = Decoder(NewPassword)


class ChangePassword(ActionKind):
    def parse(self, arguments: Mapping[str, Any]) -> HostArguments:
        return HostArguments(admin_password=parsed(_PASSWORD, arguments).admin_password)


def kinds() -> dict[str, ActionKind]:
    return {CHANGE_PASSWORD.kind: ChangePassword()}
