"""The Linux capabilities of this process."""

from pathlib import Path

# Of <linux/capability.h>.
CAP_CHOWN = 0


def has_capability(capability: int) -> bool:
    """Whether this process has the capability."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return bool(int(lines["CapPrm"], 16) >> capability & 1)
