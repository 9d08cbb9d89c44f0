"""Tracebacks in the logs of services. What is expected, an outage or a refusal or a stop, is one line; any traceback is a
violation, but for those that are allowed here with a reason.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

BEGINNING = "Traceback (most recent call last):"
# What oslo.log writes before each line: the time, the process, the level and the logger.
_PREFIX = re.compile(
    r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ (?:\d+ )?(?P<level>[A-Z]+) (?P<logger>\S+) ?(?:\[[^]]*\] ?)?"
)
_FRAME = re.compile(r'^\s+File "(?P<path>[^"]+)", line \d+, in (?P<function>\S+)')

_LINES_OF_AN_ERROR = 10
_BETWEEN = ("The above exception", "During handling of the above")

# {the end of a traceback: why it may be there}.
ALLOWED: Mapping[str, str] = {
    "Endpoint does not support RPC version": "by a conductor of the last release that was silent for so long that the level "
    "was chosen without it; its caller repeats the call. A service under test serves every version that others send",
}


class Traceback(msgspec.Struct, frozen=True, kw_only=True):
    """`logged`: the line of the log that it belongs to; empty if a process wrote it by itself. `error`: its last line."""

    logged: str
    level: str
    error: str
    paths: tuple[str, ...]


def tracebacks(text: str) -> list[Traceback]:
    """Returns those of one log. A chain of causes counts once, with the error that was logged."""
    traceback_list: list[Traceback] = []
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        # Elsewhere in a line it belongs to data, such as the failure in an answer that oslo.messaging logs.
        if not _without_prefix(lines[number]).startswith(BEGINNING):
            number += 1
            continue
        before = lines[number - 1] if number else ""
        paths, error, number = _end(lines, number)
        prefix = _PREFIX.match(before)
        level = prefix["level"] if prefix is not None else ""
        traceback_list.append(Traceback(logged=_without_prefix(before), level=level, error=error, paths=tuple(paths)))
    return traceback_list


def _end(lines: list[str], number: int) -> tuple[list[str], str, int]:
    """Returns the files of the frames, the last line of the error and the number of the line that follows it."""
    paths: list[str] = []
    error, number = "", number + 1
    while number < len(lines):
        line = _without_prefix(lines[number])
        frame = _FRAME.match(line)
        number += 1
        if frame is not None:
            paths.append(frame["path"])
        elif line.strip() and not line.startswith(" "):
            error = line
            effect = _effect(lines, number)
            if effect is None:
                break
            number = effect
    return paths, error, number


def _effect(lines: list[str], number: int) -> int | None:
    """Returns the number of the line after the beginning of the traceback that this error, which may have several lines, has
    caused.
    """
    for empty in range(number, min(number + _LINES_OF_AN_ERROR, len(lines) - 1)):
        line, following = (_without_prefix(each) for each in lines[empty : empty + 2])
        if line.startswith(BEGINNING):
            return None
        if not line.strip() and following.startswith(_BETWEEN):
            return empty + 4  # an empty line, the words between, an empty line, the next beginning
    return None


def _without_prefix(line: str) -> str:
    return _PREFIX.sub("", line)


def unexpected(logs: Mapping[str, str], of_another_release: str) -> list[str]:
    """Returns a line for each kind of traceback in the logs, {service: text}. `of_another_release`: a folder whose
    programs are not those under test.
    """
    kinds: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], str] = {}
    for name, text in sorted(logs.items()):
        for logged in _relevant(tracebacks(text), of_another_release):
            kind = logged.logged.partition(":")[0][:120], logged.error[:200]
            kinds[kind] += 1
            first.setdefault(kind, name)
    return [
        f"{count} tracebacks, the first in the log of {first[kind]}: {kind[0]}: {kind[1]}"
        for kind, count in kinds.items()
    ]


def _relevant(found: Iterable[Traceback], of_another_release: str) -> Iterable[Traceback]:
    for logged in found:
        old = any(path.startswith(of_another_release) for path in logged.paths)
        if logged.level != "DEBUG" and not old and not any(words in logged.error for words in ALLOWED):
            yield logged
