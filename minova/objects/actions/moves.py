"""Moves of servers to another host or size, and their ends. The conductor's task of a move does the work
(`conductor/moves/`). Pure.
"""

from typing import Annotated

import msgspec

from minova.objects.actions.action import Arguments, ServerAction
from minova.objects.catalogue.disk_config import DiskConfig
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.migration import COLD_STEPS, MOVABLE, MigrationType
from minova.objects.servers.states import TaskState, VmState

_SINCE = {"conductor": "1.9", "compute": "1.4"}


class ResizeArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    flavor_ref: Annotated[str, msgspec.Meta(min_length=1)] | int = msgspec.field(name="flavorRef")
    disk_config: DiskConfig | msgspec.UnsetType = msgspec.field(name="OS-DCF:diskConfig", default=msgspec.UNSET)


class LiveMigrateArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The value of `os-migrateLive`. `disk_over_commit`: has no effect, because the scheduler counts disks."""

    host: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] | None
    block_migration: bool | str
    disk_over_commit: bool | str | msgspec.UnsetType = msgspec.UNSET
    force: bool | str | msgspec.UnsetType = msgspec.UNSET


class MoveRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the conductor gets with a resize or a migration. `flavor` None: the server keeps its own.
    `host`: the requested destination. `force`: no filter of the scheduler is asked about it.
    `block`: whether a live migration copies the disks; None: unless both hosts have them.
    `names_hosts`: a refusal may say which hosts were lost for which reason.
    """

    flavor: Flavor | None = None
    host: str | None = None
    force: bool = False
    block: bool | None = None
    disk_config: str | None = None
    names_hosts: bool = False


# Each phase of a move has its own notifications: `conductor/moves/notices.py`.
BY_PHASES = ""

RESIZE = ServerAction(
    kind="resize",
    done="resized",
    arguments=ResizeArguments,
    vm_states=MOVABLE[MigrationType.RESIZE],
    progress=COLD_STEPS,
    ends_in=VmState.RESIZED,
    is_move=True,
    since=_SINCE,
    event="compute_prep_resize",
    notification=BY_PHASES,
)
MIGRATE = ServerAction(
    kind="migrate",
    done="migrated",
    vm_states=MOVABLE[MigrationType.MIGRATION],
    progress=COLD_STEPS,
    ends_in=VmState.RESIZED,
    is_move=True,
    since=_SINCE,
    event="compute_prep_resize",
    policy="os-migrate-server:migrate",
    notification=BY_PHASES,
)
LIVE_MIGRATE = ServerAction(
    kind="live_migrate",
    done="migrated live",
    name="live-migration",
    key="os-migrateLive",
    refused_name="os-migrateLive",
    arguments=LiveMigrateArguments,
    vm_states=MOVABLE[MigrationType.LIVE_MIGRATION],
    progress=(TaskState.MIGRATING,),
    ends_in=None,
    is_move=True,
    since=_SINCE,
    event="compute_live_migration",
    policy="os-migrate-server:migrate_live",
    notification=BY_PHASES,
)
CONFIRM_RESIZE = ServerAction(
    kind="confirm_resize",
    done="confirmed at its new place",
    name="confirmResize",
    vm_states=frozenset({VmState.RESIZED}),
    progress=(),
    ends_in=None,
    is_move=True,
    since=_SINCE,
    event="compute_confirm_resize",
    policy="servers:confirm_resize",
    notification=BY_PHASES,
)
REVERT_RESIZE = ServerAction(
    kind="revert_resize",
    done="brought back to its former place",
    name="revertResize",
    vm_states=frozenset({VmState.RESIZED}),
    progress=(TaskState.RESIZE_REVERTING,),
    ends_in=VmState.ACTIVE,
    is_move=True,
    since=_SINCE,
    event="compute_revert_resize",
    policy="servers:revert_resize",
    notification=BY_PHASES,
)
ACTIONS = (
    RESIZE,
    MIGRATE,
    LIVE_MIGRATE,
    CONFIRM_RESIZE,
    REVERT_RESIZE,
)
