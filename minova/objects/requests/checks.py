"""One comparison with two results: a mask over all rows, and the reason why one row failed. Pure.

`have` and `need` are numbers, or NumPy columns with one value per row. Both forms give the same verdict.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Check(NamedTuple):
    """`passed`: a bool or a mask. `details`: (name, value) pairs that the reason shows in brackets.

    `compares_free`: `have` is a free amount, so a failure means "not enough".
    """

    passed: Any
    left: str
    have: Any
    sign: str
    right: str
    need: Any
    unit: str
    details: tuple[tuple[str, Any], ...] = ()
    compares_free: bool = False

    def unless(self, exempt: Any) -> "Check":
        """Returns the same check, which the `exempt` rows pass in any case."""
        return self._replace(passed=self.passed | exempt)

    @property
    def what(self) -> str:
        """Returns the comparison without its numbers: `not enough free memory`, `members of the
        group here >= limit`.
        """
        if self.compares_free:
            return f"not enough {self.left}"
        return f"{self.left.rstrip(':')} {self.sign} {self.right}"

    @property
    def kind(self) -> str:
        """Returns the subject of the reason without its numbers: equal for rows that fail in the same way."""
        return self.left if self.sign in ("<", ">", ">=") else f"{self.left} {self.sign} {self.right}"

    def reason(self) -> str:
        """Returns `free memory 512 MB < requested 2048 MB (limit 6144 MB, used 5632 MB)`, if the values are numbers."""
        return self._line(text(self.have), text(self.need), [text(value) for _, value in self.details])

    def reasons(self, rows: Any) -> list[str]:
        """As `reason`, for each of these rows."""
        count = len(rows)
        columns = [texts(value, rows, count) for value in (self.have, self.need, *(value for _, value in self.details))]
        return [self._line(have, need, details) for have, need, *details in zip(*columns, strict=True)]

    def _line(self, have: str, need: str, details: Sequence[str]) -> str:
        unit = f" {self.unit}" if self.unit else ""
        line = f"{self.left} {have}{unit} {self.sign} {self.right} {need}{unit}"
        if not details:
            return line
        named_details = [f"{name} {value}{unit}" for (name, _), value in zip(self.details, details, strict=True)]
        return f"{line} ({', '.join(named_details)})"


def at_least(name: str, have: Any, need: Any, unit: str = "", **details: Any) -> Check:
    """Checks that `have` reaches `need`, the requested amount."""
    return Check(have >= need, name, have, "<", "requested", need, unit, tuple(details.items()))


def enough_free(name: str, free: Any, need: Any, unit: str = "", **details: Any) -> Check:
    """Checks that the `free` amount of the resource `name` reaches `need`."""
    return at_least(f"free {name}", free, need, unit, **details)._replace(compares_free=True)


def at_most(name: str, have: Any, limit: Any, unit: str = "", **details: Any) -> Check:
    """Checks that `have` does not exceed `limit`."""
    return Check(have <= limit, name, have, ">", "allowed", limit, unit, tuple(details.items()))


def below(name: str, have: Any, limit: Any, unit: str = "") -> Check:
    """Checks that `have` is below `limit`."""
    return Check(have < limit, name, have, ">=", "limit", limit, unit)


def text(value: Any) -> str:
    """Formats a number in at most ten digits."""
    return str(value) if isinstance(value, int) else f"{value:.10g}"


def texts(value: Any, rows: Any, count: int) -> list[str]:
    """Returns one text per row; a single number is repeated."""
    if getattr(value, "shape", ()):
        return [text(number) for number in value[rows].tolist()]
    return [text(value)] * count
