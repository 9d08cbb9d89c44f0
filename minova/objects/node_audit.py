"""What one audit of a node found otherwise than it was kept, for people to read."""

import msgspec


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """One figure as it was kept, and as the audit found it."""

    figure: str
    kept: str
    found: str

    def __str__(self) -> str:
        return f"{self.figure} from {self.kept} to {self.found}"


class NodeAudit(msgspec.Struct, frozen=True, kw_only=True):
    """`corrected`: figures that were kept otherwise since the audit before. `conflicts`: what rows say that cannot be
    true together. `orphans`: memory (MB) of domains that no row expects there. `strays`: domains that must not be there
    any more. `power_states`: instances that are in another state than their rows say.
    """

    corrected: tuple[Drift, ...] = ()
    conflicts: tuple[str, ...] = ()
    orphans: dict[str, int] = {}
    strays: tuple[str, ...] = ()
    power_states: tuple[str, ...] = ()
