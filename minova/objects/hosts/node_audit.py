"""The differences that one audit of a node found, for operators."""

from typing import Annotated

import msgspec
from msgspec import Meta

from minova.objects.hosts.bounds import MAX_FOUND, MAX_GUESTS, Figure, Line, Reason

Names = Annotated[tuple[Line, ...], Meta(max_length=MAX_FOUND)]


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """One figure as it was stored, and as the audit found it."""

    figure: Line
    kept: Reason
    found: Reason

    def __str__(self) -> str:
        return f"{self.figure} from {self.kept} to {self.found}"


# The last release uses this name in the database and in messages.
ENCODED = {"unexpected_domains": "strays"}


class NodeAudit(msgspec.Struct, frozen=True, kw_only=True, rename=ENCODED):
    """`corrected`: figures that differed from the stored ones since the last audit.
    `conflicts`: contradictions between rows.
    `orphans`: memory (MB) of domains that no row expects on the node.
    `unexpected_domains`: domains that must no longer be there.
    `power_states`: instances whose state differs from that in their rows.
    """

    corrected: Annotated[tuple[Drift, ...], Meta(max_length=MAX_FOUND)] = ()
    conflicts: Annotated[tuple[Reason, ...], Meta(max_length=MAX_FOUND)] = ()
    orphans: Annotated[dict[Line, Figure], Meta(max_length=MAX_GUESTS)] = {}
    unexpected_domains: Names = ()
    power_states: Names = ()
