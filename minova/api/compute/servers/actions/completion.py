"""What the API adds to the request of a server action before the conductor gets it, and how it answers the user."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from minova.api.compute.collaborators import Collaborators
from minova.api.http.call import Call
from minova.db.api_queries.instances import InstanceRow
from minova.objects.actions.action import Arguments


class Begin(NamedTuple):
    """`sent`: the arguments for the conductor.
    `answer`, `status`: for the user. `answer_after`: makes the answer after the conductor has accepted the action.
    `during`: encloses the call of the conductor.
    """

    sent: dict[str, Any]
    answer: Any = None
    status: int = 202
    answer_after: Callable[[], Any] | None = None
    during: AbstractContextManager[None] | None = None


Complete = Callable[[Collaborators, Call, Session, InstanceRow, Arguments], Begin]


def as_they_are(api: Collaborators, call: Call, session: Session, row: InstanceRow, arguments: Arguments) -> Begin:
    return Begin(arguments.sent)
