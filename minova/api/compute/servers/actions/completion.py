"""What the API adds to the request of a server action before the conductor gets it, and how it answers the user."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.http.call import Call
from minova.db.api_queries.instances import InstanceRow
from minova.objects.actions.action import Arguments


class ActionStart(NamedTuple):
    """`sent`: the arguments for the conductor.
    `answer`, `status`: for the user. `answer_after`: makes the answer after the conductor has accepted the action.
    `during`: encloses the call of the conductor.
    """

    sent: dict[str, Any]
    answer: Any = None
    status: int = 202
    answer_after: Callable[[], Any] | None = None
    during: AbstractContextManager[None] | None = None


Complete = Callable[[ComputeApiCollaborators, Call, Session, InstanceRow, Arguments], ActionStart]


def as_they_are(
    api: ComputeApiCollaborators, call: Call, session: Session, row: InstanceRow, arguments: Arguments
) -> ActionStart:
    return ActionStart(arguments.sent)
