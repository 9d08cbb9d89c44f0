"""How many more instances of one kind a cloud accepts, and what limits the number."""

import msgspec


class HostCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """`step` and `reason`: what stops the next instance; both None if the limit was reached first."""

    host: str
    node: str
    count: int
    step: str | None = None
    reason: str | None = None


class StoppedHosts(msgspec.Struct, frozen=True, kw_only=True):
    """`what`: the reason without its numbers. `full`: how many of these hosts took at least one instance before."""

    step: str
    what: str
    hosts: int
    full: int


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """`hosts`: each host, the one with the highest capacity first. `stopped`: what most hosts lack first.

    `limit`: at most so many instances are tried on each host. `complete` False: some host would take more.
    `one_host`: a server group keeps the instances together, so `total` is that of the host with the highest capacity.
    `error`: why no host was considered.
    """

    total: int
    limit: int
    complete: bool = True
    one_host: bool = False
    hosts: tuple[HostCapacity, ...] = ()
    stopped: tuple[StoppedHosts, ...] = ()
    error: str | None = None
