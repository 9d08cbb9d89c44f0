"""A check that is spelled once and answers twice: a mask over columns, and the reason why one row was lost.

`have` and `need` are numbers, or NumPy columns with one value per row; both shapes give the same verdict.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Check(NamedTuple):
    """`passed` is a bool or a mask. `details` are (name, value) pairs that are added to the reason in brackets."""

    passed: Any
    left: str
    have: Any
    sign: str
    right: str
    need: Any
    unit: str
    details: tuple[tuple[str, Any], ...]

    def unless(self, exempt: Any) -> "Check":
        """The same check, which those pass all the same that are `exempt`."""
        return self._replace(passed=self.passed | exempt)

    @property
    def what(self) -> str:
        """The comparison without its numbers: `not enough free memory`, `members of the group here >= limit`."""
        if self.is_room:
            return f"not enough {self.left}"
        return f"{self.left.rstrip(':')} {self.sign} {self.right}"

    @property
    def is_room(self) -> bool:
        """Whether it asks what is free, not what a host is like."""
        return self.left.startswith("free ")

    def reason(self) -> str:
        """`free memory 512 MB < requested 2048 MB (limit 6144 MB, used 5632 MB)`, where the values are numbers."""
        return self._line(text(self.have), text(self.need), [text(value) for _, value in self.details])

    def reasons(self, rows: Any) -> list[str]:
        """The same for some rows (an array of their numbers), where some of the values are columns."""
        count = len(rows)
        columns = [texts(value, rows, count) for value in (self.have, self.need, *(value for _, value in self.details))]
        return [self._line(have, need, details) for have, need, *details in zip(*columns, strict=True)]

    def _line(self, have: str, need: str, details: Sequence[str]) -> str:
        unit = f" {self.unit}" if self.unit else ""
        line = f"{self.left} {have}{unit} {self.sign} {self.right} {need}{unit}"
        if not details:
            return line
        named = [f"{name} {value}{unit}" for (name, _), value in zip(self.details, details, strict=True)]
        return f"{line} ({', '.join(named)})"


def at_least(name: str, have: Any, need: Any, unit: str = "", **details: Any) -> Check:
    """`have` must reach `need`: what was requested."""
    return Check(have >= need, name, have, "<", "requested", need, unit, tuple(details.items()))


def at_most(name: str, have: Any, most: Any, unit: str = "", **details: Any) -> Check:
    """`have` must not pass `most`."""
    return Check(have <= most, name, have, ">", "allowed", most, unit, tuple(details.items()))


def below(name: str, have: Any, limit: Any, unit: str = "") -> Check:
    """`have` must stay below `limit`."""
    return Check(have < limit, name, have, ">=", "limit", limit, unit, ())


def text(value: Any) -> str:
    """A number without needless digits."""
    return str(value) if isinstance(value, int) else f"{value:.10g}"


def texts(value: Any, rows: Any, count: int) -> list[str]:
    """Of each row; a single number stands for all."""
    if getattr(value, "shape", ()):
        return [text(one) for one in value[rows].tolist()]
    return [text(value)] * count
