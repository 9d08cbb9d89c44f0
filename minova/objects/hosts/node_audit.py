"""The differences that one audit of a node found, for operators."""

import msgspec


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """One figure as it was stored, and as the audit found it."""

    figure: str
    kept: str
    found: str

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

    corrected: tuple[Drift, ...] = ()
    conflicts: tuple[str, ...] = ()
    orphans: dict[str, int] = {}
    unexpected_domains: tuple[str, ...] = ()
    power_states: tuple[str, ...] = ()
