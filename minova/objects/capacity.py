"""How many more instances of one kind a cloud takes, and what stops it."""

import msgspec


class HostCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """`step` and `reason` say what keeps the next one away; both None where the limit was reached before."""

    host: str
    node: str
    count: int
    step: str | None = None
    reason: str | None = None


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """`what` is the reason without its numbers. `full`: of these hosts, those that took at least one before."""

    step: str
    what: str
    hosts: int
    full: int


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """`hosts` has each host, the roomiest first; `stopped` what most hosts lack, first.

    `limit` instances are tried on each host at most; `complete` False: some host would take more than those.
    `one_host`: a server group keeps them together, so that `total` is what the roomiest host takes. `error`: no host was
    looked at, and why.
    """

    total: int
    limit: int
    complete: bool = True
    one_host: bool = False
    hosts: tuple[HostCapacity, ...] = ()
    stopped: tuple[Stopped, ...] = ()
    error: str | None = None
