"""Shows how much of a resource is used: a bar on a terminal, and the plain number everywhere else."""

from typing import Any, TextIO

from cliff.columns import FormattableColumn

WIDTH = 20  # characters
EIGHTHS = " ▏▎▍▌▋▊▉"


class Used(FormattableColumn[dict[str, Any]]):
    """Usage and total: `3/8` on a terminal, both numbers in machine-readable formats."""

    def human_readable(self) -> str:
        return f"{self._value['used']}/{self._value['total']}"


class Bar(FormattableColumn[Any]):
    """A number; if `out` is a terminal, with a bar of its share of the limit. An overcommitted resource fills the
    bar.
    """

    def __init__(self, used: Any, limit: Any, out: TextIO) -> None:
        super().__init__(used)
        self._limit = limit
        self._out = out

    def human_readable(self) -> str:
        if not self._out.isatty() or self._value is None or not self._limit:
            return str(self._value)
        drawn = bar(self._value / self._limit, blocks=_can_show(self._out))
        return f"{self._value} of {int(self._limit)}  {drawn} {self._value / self._limit:.0%}"


def bar(part: float, *, blocks: bool = True) -> str:
    """Returns a bar of WIDTH characters of which `part` is full: with block characters, or with # if the terminal has
    none.
    """
    part = min(max(part, 0.0), 1.0)
    if not blocks:
        full = round(part * WIDTH)
        return f"[{'#' * full}{'.' * (WIDTH - full)}]"
    full, rest = divmod(round(part * WIDTH * 8), 8)
    drawn = "█" * full + (EIGHTHS[rest] if rest else "")
    return f"▕{drawn:<{WIDTH}}▏"


def _can_show(out: TextIO) -> bool:
    try:
        "█▏▕".encode(getattr(out, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return False
    return True
