"""Fences of hosts, read in the transaction of a decision. They stay as they are until it ends: what forces a host down waits.

The readings of `liveness.py` may be some seconds old, so they are no proof that a host may start a guest.
"""

from collections.abc import Collection

from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.hosts.liveness import COMPUTE
from minova.db.hosts import services


def fenced_among(session: Session, hosts: Collection[str], *, held: bool = True) -> frozenset[str]:
    """Returns which of these hosts are forced down, or were removed. `held` False: for a preview, which decides nothing."""
    if not hosts:
        return frozenset()
    forced_down = services.fences(session, hosts, COMPUTE, held=held)
    return frozenset(host for host in hosts if forced_down.get(host, True))


def is_fenced_now(session: Session, host: str | None) -> bool:
    """Whether the host is forced down, or was removed."""
    return bool(fenced_among(session, [str(host)]))


def require_up(host: str, down: Collection[str]) -> None:
    """Raises BadRequest, with Nova's text, if the host that a request names is among those that are down."""
    if host in down:
        raise errors.BadRequest(f"Compute service of {host} is unavailable at this time.")
