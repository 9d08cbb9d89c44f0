"""Why a request went where it went, or nowhere: every decision's record."""

import msgspec

from minova.objects.request_spec import Selection


class LostHost(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    node: str
    reason: str


class FilterStep(msgspec.Struct, frozen=True, kw_only=True):
    """One filter of the chain, or a gate such as `placement`: hosts before and after, and why each was lost."""

    name: str
    before: int
    after: int
    lost: tuple[LostHost, ...] = ()


class WeighedHost(msgspec.Struct, frozen=True, kw_only=True):
    """`weights` has each weigher's share, multiplier included; `weight` is their sum."""

    host: str
    node: str
    weight: float
    weights: dict[str, float] = {}


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """`instance_uuids` share the decision; `found` of them had a host before the first that had none.

    `selected` has (host, node) in the order of the instances.
    """

    request_id: str
    instance_uuids: tuple[str, ...]
    hosts: int
    found: int = 0
    steps: tuple[FilterStep, ...] = ()
    weighed: tuple[WeighedHost, ...] = ()
    selected: tuple[tuple[str, str], ...] = ()
    error: str | None = None

    def summary(self) -> str:
        """One line for people: `No valid host was found. 3 hosts: RamFilter removed 2, ComputeFilter removed 1.`"""
        removed = ", ".join(f"{s.name} removed {s.before - s.after}" for s in self.steps if s.before != s.after)
        counted = f"{self.hosts} host{'' if self.hosts == 1 else 's'}"
        if len(self.instance_uuids) > 1 and removed:
            counted = f"Only {self.found} of {len(self.instance_uuids)} instances had one. {counted}"
        return (
            f"No valid host was found. {counted}: {removed}."
            if removed
            else f"No valid host was found. {self.error or counted + ' known.'}"
        )


class ScheduleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One list of Selections per instance, in their order: the chosen host first, then its alternates.

    Empty `selections` means no: then `diagnosis.error` says why. All or nothing: fewer hosts than instances is a no.
    """

    selections: tuple[tuple[Selection, ...], ...] = ()
    diagnosis: Diagnosis
