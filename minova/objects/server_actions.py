"""What users do with a server that exists, as `POST /servers/{id}/action`: one entry in this table for each action. Pure.

Everything that the services do with an action goes by its entry: the API's checks and texts, the task that the conductor
writes, the states on the way, the message to the compute, the record and the notifications.
"""

from collections.abc import Mapping

import msgspec

from minova.objects.states import State, TaskState, VmState


class ServerAction(msgspec.Struct, frozen=True, kw_only=True):
    """`name`: as in instance actions, and the kind of its task. `key`: in the body of the request.

    `vm_states`: those in which it may be asked for; `task_state`: while it is done; `ends_in`: the vm_state when it is done.
    `since`: the versions of the contracts, by topic, whose services know the method and the task state.
    `method`: of the compute's contract. `event`: in the record. `notification`: without `compute.instance.`, `.start`, `.end`.
    """

    name: str
    key: str
    vm_states: frozenset[VmState]
    task_state: TaskState
    ends_in: VmState
    since: Mapping[str, str]
    method: str
    event: str
    notification: str

    @property
    def in_progress(self) -> tuple[State, ...]:
        """States of an instance to which it is done."""
        return tuple((state, self.task_state) for state in sorted(self.vm_states))

    @property
    def transitions(self) -> dict[State, set[State]]:
        """It begins from an idle state; it ends well, or the instance is as before."""
        table: dict[State, set[State]] = {}
        for state in self.vm_states:
            table[state, None] = {(state, self.task_state)}
            table[state, self.task_state] = {(self.ends_in, None), (state, None)}
        return table

    def refusal(self, instance_uuid: str, state: State, *, has_host: bool, launched: bool) -> str | None:
        """Why it cannot be done now, in Nova's words and order."""
        vm_state, task_state = state
        if not has_host:
            return f"Instance {instance_uuid} is not ready"
        if vm_state not in self.vm_states:
            return f"Cannot '{self.name}' instance {instance_uuid} while it is in vm_state {vm_state}"
        if task_state is not None:
            return f"Cannot '{self.name}' instance {instance_uuid} while it is in task_state {task_state}"
        if not launched:
            return f"Cannot '{self.name}' an instance which has never been active"
        return None


STOP = ServerAction(
    name="stop",
    key="os-stop",
    vm_states=frozenset({VmState.ACTIVE, VmState.ERROR}),
    task_state=TaskState.POWERING_OFF,
    ends_in=VmState.STOPPED,
    since={"conductor": "1.7", "compute": "1.3"},
    method="stop_instance",
    event="compute_stop_instance",
    notification="power_off",
)
START = ServerAction(
    name="start",
    key="os-start",
    vm_states=frozenset({VmState.STOPPED}),
    task_state=TaskState.POWERING_ON,
    ends_in=VmState.ACTIVE,
    since={"conductor": "1.7", "compute": "1.3"},
    method="start_instance",
    event="compute_start_instance",
    notification="power_on",
)

ACTIONS: tuple[ServerAction, ...] = (STOP, START)
BY_NAME: Mapping[str, ServerAction] = {action.name: action for action in ACTIONS}
BY_KEY: Mapping[str, ServerAction] = {action.key: action for action in ACTIONS}
BY_TASK_STATE: Mapping[TaskState, ServerAction] = {action.task_state: action for action in ACTIONS}
