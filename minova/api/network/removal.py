"""Deletes what ports use that are going: a port that was deleted is there until the guest of its server has let go of it.

Neutron's are gone at once, so scripts delete a port, its subnet and its network one after the other.
"""

import time
from collections.abc import Callable

from sqlalchemy.orm import Session

from minova import errors
from minova.api.http.call import Call
from minova.api.network.collaborators import Collaborators

# Seconds that a guest is waited for, as it takes when it lets go at all; and between two looks.
PATIENCE = 10.0
LOOK = 0.2


def delete_once_free(
    api: Collaborators, call: Call, delete: Callable[[], None], is_left_by_going: Callable[[Session], bool]
) -> None:
    """`is_left_by_going`: whether only ports use it that are going. Raises what `delete` raises, of what is in use after the patience too."""
    try:
        return delete()
    except errors.Conflict:
        if not _is(api, is_left_by_going):
            raise
        try:
            place = api.waiting.place(call.ctx.project_id)
            with place:
                until = time.monotonic() + PATIENCE
                while time.monotonic() < until and _is(api, is_left_by_going):
                    time.sleep(LOOK)
        except errors.ServiceUnavailable:  # too many wait
            pass
    return delete()


def _is(api: Collaborators, is_left_by_going: Callable[[Session], bool]) -> bool:
    with api.db.read() as session:
        return is_left_by_going(session)
