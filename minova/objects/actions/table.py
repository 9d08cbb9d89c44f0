"""Actions of users on an existing server, as in `POST /servers/{id}/action`: one entry for each, in the module of its
family. Pure.

An action's entry controls everything that the services do with it: the API's checks and texts, the task that the
conductor writes, the intermediate states, the message to the compute, the record and the notifications. The values are
Nova's.
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
