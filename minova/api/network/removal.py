"""Deletes resources that are only in use by ports that are being deleted. Such a port exists until the guest of its
server has released it.

Neutron removes a port at once, so scripts delete a port, its subnet and its network one after the other.
"""

import time
from collections.abc import Callable

from sqlalchemy.orm import Session

from minova import errors
from minova.api.http.call import Call
from minova.api.network.collaborators import NetworkApiCollaborators

# Seconds to wait for a guest, enough if it releases its port at all; and seconds between two checks.
PATIENCE = 10.0
LOOK = 0.2


def delete_once_free(
    api: NetworkApiCollaborators, call: Call, delete: Callable[[], None], only_pending_delete: Callable[[Session], bool]
) -> None:
    """Deletes a resource, and waits if that is in use by nothing but ports that are being deleted.

    `only_pending_delete`: whether only such ports use it.

    Raises the errors of `delete`, also if the resource is still in use after PATIENCE.
    """
    try:
        return delete()
    except errors.Conflict:
        if not _are_pending_delete(api, only_pending_delete):
            raise
        try:
            place = api.waiting.place(call.ctx.project_id)
            with place:
                until = time.monotonic() + PATIENCE
                while time.monotonic() < until and _are_pending_delete(api, only_pending_delete):
                    time.sleep(LOOK)
        except errors.ServiceUnavailable:  # too many requests wait
            pass
    return delete()


def _are_pending_delete(api: NetworkApiCollaborators, only_pending_delete: Callable[[Session], bool]) -> bool:
    with api.db.read() as session:
        return only_pending_delete(session)
