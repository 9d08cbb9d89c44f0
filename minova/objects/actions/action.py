"""Server actions: all that the services do with an action follows from its entry in the table. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from minova.objects.guests.guest_states import stands_still
from minova.objects.servers.states import PowerState, State, TaskState, VmState

# Seconds for the host of an action with secret arguments: longer than the host waits for a guest (`virt`,
# GUEST_AGENT_TIMEOUT).
SECRET_TIMEOUT = 60.0
_SINCE: Mapping[str, str] = {"conductor": "1.7", "compute": "1.3"}


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    """The value of the action's key in the body of the request. As in Nova, it is ignored if the action takes no
    arguments.

    `variant`: selects one of several actions with this key. `sent`: the arguments for the conductor.
    """

    @property
    def variant(self) -> str:
        return ""

    @property
    def sent(self) -> dict[str, Any]:
        return {}


class ServerAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action, as the services need it.

    `kind`: unique; the kind of its task.
    `done`: what has become of a server after it, for sentences: `stopped`.
    `name`: in instance actions. `refused_name`: in refusals.
    `key`: in the body of the request; empty for an action that has a route of its own.
    `arguments`: the type of the key's value. `variant`: selects one of the entries that share a key, by the arguments'
    `variant`.
    `vm_states`, `task_states`: the states in which it may be requested. An action in progress in one of these task
    states is ended.
    `progress`: the task states during the action: the first at once, the others when its host begins; empty: the task
    state does not change.
    `ends_in`: the vm_state after success. `fails_in`: the vm_state after a failure of its host. None: the vm_state does
    not change.
    `reported`: those states of `progress`, at its end, that the host itself reports on its way.
    `keeps`: vm_states that do not change after success, whatever `ends_in` is.
    `changes_at`: the task state of `progress` in which the guest is changed; its host reports it (by another
    `begin_action`). A failure before it leaves the instance as it was; from then on a failure ends in `fails_in`.
    `repeatable`: whether a host that was interrupted may repeat it.
    `exclusive`: it has no task states, but other actions wait for it, except those that end other actions.
    `secret`: its arguments are stored nowhere. The message is sent to its host once, and the host has `SECRET_TIMEOUT`
    to answer.
    `makes_image`: the arguments hold the record of an image that is created with the task; the record is removed if the
    action fails.
    `wakes`: also allowed on an active server whose guest stands still: something else than minova has paused it.
    `ignores_lock`: allowed on a locked server.
    `forced`: what its record says if the guest did not obey in time.
    `notifies_errors`: as in Nova, a notification tells of its failure, too.
    `accepted_late`: its success is accepted although a conductor has ended it, if nothing has changed the instance since.
    What other actions had taken was given back at their end: images, quotas, ports.
    `redefines_domain`: afterwards the guest has exactly the interfaces of its instance.
    `opens_disk`: it opens the guest's disk, or is about to, so the disk's base image must be there.
    `changes_image`: its success changes the image of the instance, which host tables show.
    `irrevocable`: once accepted it is never cancelled. Without its host it succeeds; the host does it when it is back.
    `is_move`: a task of its own does it (`conductor/moves/`); no host gets it as a server action.
    `since`: by topic, the versions of the contracts from which on services know the method and the task states.
    `event`: in the record.
    `policy`: the API's, without `os_compute_api:`.
    `notification`: without `compute.instance.`, `.start`, `.end`. For an action without task states it is sent when its
    host begins; such an action must not be repeatable.

    The texts derive from the kind and the name, unless an entry states another one, which is Nova's.
    """

    kind: str
    done: str
    name: str = "{kind}"
    key: str = "{name}"
    arguments: type[Arguments] = Arguments
    refused_name: str = "{name}"
    variant: str = ""
    vm_states: frozenset[VmState]
    task_states: frozenset[TaskState | None] = frozenset({None})
    progress: tuple[TaskState, ...]
    ends_in: VmState | None
    fails_in: VmState | None = None
    reported: tuple[TaskState, ...] = ()
    keeps: frozenset[VmState] = frozenset()
    changes_at: TaskState | None = None
    repeatable: bool = True
    exclusive: bool = False
    secret: bool = False
    makes_image: bool = False
    ignores_lock: bool = False
    forced: str = "The guest did not shut down in time, and was powered off."
    wakes: bool = False
    notifies_errors: bool = False
    accepted_late: bool = False
    redefines_domain: bool = False
    opens_disk: bool = False
    changes_image: bool = False
    irrevocable: bool = False
    is_move: bool = False
    since: Mapping[str, str] = msgspec.field(default_factory=lambda: _SINCE)
    event: str = "compute_{kind}_instance"
    policy: str = "servers:{name}"
    notification: str = "{kind}"

    def __post_init__(self) -> None:
        for field in ("name", "key", "refused_name", "event", "policy", "notification"):
            msgspec.structs.force_setattr(self, field, getattr(self, field).format(kind=self.kind, name=self.name))

    @property
    def begins_in(self) -> frozenset[VmState]:
        """Returns every vm_state in which it may be requested."""
        return self.vm_states | {VmState.ACTIVE} if self.wakes else self.vm_states

    @property
    def entered(self) -> tuple[TaskState, ...]:
        """Returns the task states that it has entered when its host begins."""
        return tuple(step for step in self.progress if step not in self.reported)

    @property
    def transitions(self) -> dict[State, set[State]]:
        """Returns the transitions from the states in which it may be requested, through those of its progress, to
        success or failure.
        """
        table: dict[State, set[State]] = {}
        for state in self.begins_in if self.progress else ():
            ends: set[State] = {(self.after_success(state), None), (self.fails_in or state, None), (state, None)}
            for task_state in self.task_states:
                table.setdefault((state, task_state), set()).add((state, self.progress[0]))
            for number, step in enumerate(self.progress):
                following: set[State] = {(state, later) for later in self.progress[number + 1 :]}
                table.setdefault((state, step), set()).update(ends | following)
        return table

    def is_in_progress(self, state: State) -> bool:
        """Whether an instance in this state, which has a task of this kind, is in the state that the task was created
        for.
        """
        return not self.progress or (state[0] in self.begins_in and state[1] in self.progress)

    @property
    def ends_others(self) -> bool:
        """Whether it may be requested while another action is in progress."""
        return len(self.task_states) > 1

    def interrupts(self, earlier: "ServerAction", task_state: TaskState | None) -> bool:
        """Whether it may be requested while `earlier` is in progress in this task state, and ends it."""
        if earlier.progress:
            return task_state is not None and task_state in self.task_states
        return self.ends_others or not earlier.exclusive

    @property
    def leaves_host(self) -> bool:
        """Whether its success removes the guest, so that the instance has no host any more."""
        return self.ends_in is VmState.SHELVED_OFFLOADED

    def after_success(self, vm_state: VmState) -> VmState:
        """Returns the instance's vm_state after success."""
        return vm_state if self.ends_in is None or vm_state in self.keeps else self.ends_in

    def steps(self, task_state: TaskState | None, *, changes: bool) -> tuple[TaskState, ...]:
        """Returns the task states that follow while its host continues: to the end, or (not `changes`) to the state
        that changes the guest.
        """
        entered = self.entered
        passed = entered.index(task_state) if task_state in entered else len(entered)
        end = entered.index(self.changes_at) if self.changes_at is not None and not changes else None
        return entered[passed:end]

    def has_changed(self, task_state: TaskState | None) -> bool | None:
        """Whether the guest has already been changed. None: only its host knows."""
        if self.changes_at is None or task_state not in self.progress:
            return None
        return self.progress.index(task_state) >= self.progress.index(self.changes_at)

    def after_failure(self, vm_state: VmState, power_state: PowerState | None, *, untouched: bool = False) -> VmState:
        """Returns the instance's vm_state after its host failed. It is unchanged if the guest runs nevertheless, or was
        not touched.
        """
        if self.fails_in is None or untouched or power_state is PowerState.RUNNING:
            return vm_state
        return self.fails_in

    def refusal(
        self,
        instance_uuid: str,
        state: State,
        *,
        has_host: bool,
        launched: bool,
        power_state: PowerState = PowerState.RUNNING,
    ) -> str | None:
        """Returns why it is not allowed now, with Nova's texts and in Nova's order; None if it is allowed."""
        vm_state, task_state = state
        if not has_host and vm_state is not VmState.SHELVED_OFFLOADED:
            return f"Instance {instance_uuid} is not ready: it has no host"
        may_wake = self.wakes and vm_state is VmState.ACTIVE and stands_still(vm_state, power_state)
        if vm_state not in self.vm_states and not may_wake:
            return f"Cannot '{self.refused_name}' instance {instance_uuid} while it is in vm_state {vm_state}"
        if task_state not in self.task_states:
            return f"Cannot '{self.refused_name}' instance {instance_uuid} while it is in task_state {task_state}"
        if not launched:
            return f"Cannot '{self.refused_name}' an instance which has never been active"
        return None
