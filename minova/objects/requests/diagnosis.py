"""The record of every decision: why a request got its hosts, or none."""

import msgspec

from minova.objects.requests.request_spec import Selection

# Steps whose names say nothing to users.
EXPLAINED = {"ignore_hosts": "the server must leave it, or a copy of the server is there, or the request excludes it"}


class LostHost(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    node: str
    reason: str


class FilterStep(msgspec.Struct, frozen=True, kw_only=True):
    """One filter of the chain, or a preselection step such as `placement`: hosts before and after, and why each host
    was lost.

    `lost` may be truncated. `lacking` counts all lost hosts by what they lack, without their names.
    """

    name: str
    before: int
    after: int
    lost: tuple[LostHost, ...] = ()
    lacking: dict[str, int] = {}

    def summary(self) -> str:
        """Returns `placement removed 3 (not enough free MEMORY_MB, not enough free VCPU: 1)`. A reason of all lost
        hosts has no number.
        """
        count = self.before - self.after
        reasons = [what if many == count else f"{what}: {many}" for what, many in self.lacking.items()]
        if self.name in EXPLAINED:
            reasons.append(EXPLAINED[self.name])
        return f"{self.name} removed {count}" + (f" ({', '.join(reasons)})" if reasons else "")


class WeighedHost(msgspec.Struct, frozen=True, kw_only=True):
    """`weights`: each weigher's share, multiplier included; `weight`: their sum."""

    host: str
    node: str
    weight: float
    weights: dict[str, float] = {}


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """`instance_uuids` share the decision. `found`: how many of them got a host before the first one that got none.

    `selected`: (host, node) in the order of the instances.
    `conflicts`: hosts that were chosen in earlier attempts, where the claim was refused because another scheduler was
    faster.
    """

    request_id: str
    instance_uuids: tuple[str, ...]
    hosts: int
    found: int = 0
    steps: tuple[FilterStep, ...] = ()
    weighed: tuple[WeighedHost, ...] = ()
    selected: tuple[tuple[str, str], ...] = ()
    error: str | None = None
    conflicts: tuple[LostHost, ...] = ()

    def summary(self) -> str:
        """Returns one line for users: `No valid host was found. 3 hosts: RamFilter removed 2,
        ComputeFilter removed 1.`
        """
        removed = ", ".join(step.summary() for step in self.steps if step.before != step.after)
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

    Empty `selections`: no hosts were found, and `diagnosis.error` says why. All or nothing: fewer hosts than instances
    counts as none.
    """

    selections: tuple[tuple[Selection, ...], ...] = ()
    diagnosis: Diagnosis
