"""What one audit of a node found otherwise than it was kept, for people to read."""

import msgspec


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """One figure as it was kept, and as the audit found it."""

    figure: str
    kept: str
    found: str

    def __str__(self) -> str:
        return f"{self.figure} from {self.kept} to {self.found}"


# The last release names them so in the database and on the wire.
ENCODED = {"unexpected_domains": "strays"}


class NodeAudit(msgspec.Struct, frozen=True, kw_only=True, rename=ENCODED):
    """`corrected`: figures that were kept otherwise since the audit before. `conflicts`: what rows say that cannot be
    true together. `orphans`: memory (MB) of domains that no row expects there. `unexpected_domains`: domains that must not be there
    any more. `power_states`: instances that are in another state than their rows say.
    """

    corrected: tuple[Drift, ...] = ()
    conflicts: tuple[str, ...] = ()
    orphans: dict[str, int] = {}
    unexpected_domains: tuple[str, ...] = ()
    power_states: tuple[str, ...] = ()
