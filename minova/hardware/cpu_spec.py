"""Sets of CPUs in text form: `0-3,^2,8`."""

import re
from collections.abc import Iterable

_ITEM = re.compile(r"(\^?)\s*(\d+)(?:\s*-\s*(\d+))?")
# Far more than any machine has, and few enough that a typing error does not exhaust the memory.
MAX_CPUS = 1 << 14


def parse(text: str) -> frozenset[int]:
    """Returns the CPUs of a list of numbers, ranges and `^` exclusions, in any order. Raises ValueError, which says
    what is wrong.
    """
    cpus = members(text)
    if not cpus:
        raise ValueError(f"{text!r} names no CPU")
    return cpus


def members(text: str) -> frozenset[int]:
    """As `parse`, but the result may be empty: a mask can exclude all CPUs."""
    included: set[int] = set()
    excluded: set[int] = set()
    for item in text.split(","):
        if not item.strip():
            continue
        match = _ITEM.fullmatch(item.strip())
        if match is None:
            raise ValueError(f"{item.strip()!r} is neither a CPU, a range such as 0-3, nor an exclusion such as ^2")
        first, last = int(match[2]), int(match[3] or match[2])
        if first > last:
            raise ValueError(f"{item.strip()!r}: {first} > {last}")
        if last >= MAX_CPUS:
            raise ValueError(f"{item.strip()!r}: there is no CPU {last}")
        (excluded if match[1] else included).update(range(first, last + 1))
    return frozenset(included - excluded)


def write(cpus: Iterable[int]) -> str:
    """Returns the shortest text that `parse` reads as these CPUs."""
    runs: list[tuple[int, int]] = []
    for cpu in sorted(set(cpus)):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1] = (runs[-1][0], cpu)
        else:
            runs.append((cpu, cpu))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
