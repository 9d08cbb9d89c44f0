"""Locks of servers: the one place that actions, changes and deletion go through."""

from minova import errors
from minova.db.servers.instances import LockedInstance


def require_unlocked(instance: LockedInstance, *, override: bool) -> None:
    """Conflict: the server is locked. `override`: the API lets the caller change locked servers."""
    if instance.locked_by is not None and not override:
        raise errors.Conflict(f"Instance {instance.uuid} is locked")
