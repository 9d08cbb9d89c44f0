"""A guest as its host keeps it, and the reports of these records to a conductor."""

from typing import Annotated

import msgspec
from msgspec import Meta

from minova.objects.actions.shelving import SHELVE
from minova.objects.hosts.bounds import Figure, Line, Name, Reason
from minova.objects.requests.build_extras import BuildExtras
from minova.objects.requests.request_spec import RequestSpec
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import VmState

# The most actions of one guest that its host remembers, the newest.
MAX_ACTIONS = 64


class EndedAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action that ended on the host. After a restore of the database other actions may get the same ids, so that
    only `id` and `request_id` together name an action.

    `vm_state`: of the instance before the action; empty: an earlier release has not recorded it.
    `reason`, `failure`: why it failed, and its kind (`objects/servers/failures.py`); `reason` None: it succeeded. `kept_disks`:
    see `action_failed`.
    """

    id: Figure
    request_id: Line
    kind: Line
    vm_state: Line = ""
    reason: Reason | None = None
    failure: Line = ""
    untouched: bool = False
    kept_disks: bool = False


class GuestRecord(msgspec.Struct, frozen=True, kw_only=True):
    """All that the database needs to know a guest again. Its host writes it after the build and after each action.

    `instance`: as it was then, with its state and its interfaces.
    `attempt`, `node`: of the build that made the guest.
    `request_spec`, `build_extras`: of its request; None and empty if the record was made later from the row.
    `actions`: the last ones that ended on the host, in their order.
    `accepted`: a conductor has accepted the report that the build succeeded.
    `left_for`: the destination of its last live migration that has begun here.
    """

    instance: Instance
    attempt: Figure
    node: Name
    request_spec: RequestSpec | None = None
    build_extras: BuildExtras = msgspec.field(name="carried", default=BuildExtras())
    actions: Annotated[tuple[EndedAction, ...], Meta(max_length=16 * MAX_ACTIONS)] = ()
    accepted: bool = False
    left_for: Name | None = None

    def action(self, action_id: int, request_id: str) -> EndedAction | None:
        """Returns the action if it has ended here."""
        ended = (
            action for action in reversed(self.actions) if (action.id, action.request_id) == (action_id, request_id)
        )
        return next(ended, None)

    @property
    def was_shelved_suspended(self) -> bool:
        """Whether the last action that succeeded has shelved the server while it was suspended."""
        last = next((action for action in reversed(self.actions) if action.reason is None), None)
        return last is not None and (last.kind, last.vm_state) == (SHELVE.kind, VmState.SUSPENDED)


class GuestMark(msgspec.Struct, frozen=True, kw_only=True):
    """What a host has of one guest, for a comparison with the guest's row.

    `attempt` None: not known.
    `action_id`, `request_id`: the last action that ended on the host; None: none is recorded.
    `accepted`: see GuestRecord.
    `handed_over`: it is paused, since a live migration has handed it over to another host, which has yet to show it.
    `handed_over_to`: that host; None: it is not recorded.
    `has_domain` False: only disks are left. `has_record`: the host can send a GuestRecord.
    """

    uuid: Name
    name: Name = ""
    node: Name = ""
    memory_mb: Figure = 0
    vcpus: Figure = 0
    disk_gb: Figure = 0
    power_state: Figure = 0
    attempt: Figure | None = None
    action_id: Figure | None = None
    request_id: Name | None = None
    handed_over: bool = False
    handed_over_to: Name | None = None
    has_domain: bool = True
    has_record: bool = False
    accepted: bool = False


class GuestsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The conductor's answer to the marks of all guests of a host.

    `newer`: guests that are newer than their rows. The host leaves them as they are.
    `wanted`: guests whose records the conductor wants.
    `remove`: guests that an operator has decided to remove.
    `pause`: guests that run although a move or an evacuation has given their servers to another host.
    `resume`: guests that were handed over to other hosts, none of which has anything of them.
    """

    newer: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    pause: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
