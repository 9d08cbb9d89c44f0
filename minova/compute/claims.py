"""Does a request still fit on this node? Pure: the limits that the scheduler sent against the usage kept here."""

import msgspec

from minova.compute.usage import Usage
from minova.objects.compute_node import ComputeNode
from minova.objects.request_spec import HostLimits


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One resource of a claim. `limit` None means unlimited."""

    kind: str
    unit: str
    total: int
    used: int
    requested: int
    limit: float | None

    @property
    def reason(self) -> str | None:
        """Why it does not fit, or nothing."""
        if self.limit is None:
            return None
        free = self.limit - self.used
        if self.requested <= free:
            return None
        return f"Free {self.kind} {free:.2f} {self.unit} < requested {self.requested} {self.unit}"

    def lines(self) -> tuple[str, ...]:
        """What the log says of it, in Nova's words."""
        total = f"Total {self.kind}: {self.total} {self.unit}, used: {self.used:.2f} {self.unit}"
        if self.limit is None:
            return total, f"{self.kind} limit not specified, defaulting to unlimited"
        free = self.limit - self.used
        return total, f"{self.kind} limit: {self.limit:.2f} {self.unit}, free: {free:.2f} {self.unit}"


def checks_of(node: ComputeNode, wanted: Usage, limits: HostLimits) -> tuple[Check, ...]:
    """One Check for each of memory, disk and vcpu. `node` is as it was before the claim."""
    return (
        Check(
            kind="memory",
            unit="MB",
            total=node.memory_mb,
            used=node.memory_mb_used,
            requested=wanted.memory_mb,
            limit=limits.memory_mb,
        ),
        Check(
            kind="disk",
            unit="GB",
            total=node.local_gb,
            used=node.local_gb_used,
            requested=wanted.disk_gb,
            limit=limits.disk_gb,
        ),
        Check(
            kind="vcpu",
            unit="VCPU",
            total=node.vcpus,
            used=node.vcpus_used,
            requested=wanted.vcpus,
            limit=limits.vcpu,
        ),
    )


def reasons_against(checks: tuple[Check, ...]) -> str | None:
    """Every reason against the claim, joined; nothing when it fits."""
    reasons = [check.reason for check in checks if check.reason is not None]
    return "; ".join(reasons) or None
