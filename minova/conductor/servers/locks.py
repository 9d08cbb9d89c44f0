"""Locks of servers: actions, changes and deletion all check them here."""

from minova import errors
from minova.db.servers.instances import LockedInstance


def require_unlocked(instance: LockedInstance, *, override: bool) -> None:
    """Raises Conflict if the server is locked. `override`: the API lets the caller change locked servers."""
    if instance.locked_by is not None and not override:
        raise errors.Conflict(f"Instance {instance.uuid} is locked")
