"""Regular expressions of listings.

A simple expression becomes a LIKE pattern for the database. RE2 runs every other expression in this process, in time
that is linear in the length of the text: one request can keep the engines of PostgreSQL and MariaDB busy for hours
(decision 0032).
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec
import re2

from minova import errors

# A name has 255 characters at most; a backslash before each and both anchors fit as well.
MAX_PATTERN = 512
# Instructions of RE2. With that many, a text of 255 characters takes some milliseconds at worst.
MAX_INSTRUCTIONS = 500
_TOKEN = re.compile(r"\\(?P<escaped>[^\w])|(?P<any>\.\*)|(?P<one>\.)|(?P<plain>[^\\.*+?^$()\[\]{}|])")

_OPTIONS = re2.Options()
_OPTIONS.case_sensitive = False
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True
_OPTIONS.max_mem = 1 << 20


class Pattern(msgspec.Struct, frozen=True):
    """An expression of a listing, and its LIKE pattern if it has one.

    `text`: the expression. It may match anywhere in a value and ignores case.
    `like`: the LIKE pattern that finds the same, escaped by a backslash; None if there is none.
    """

    text: str
    like: str | None

    @property
    def needed(self) -> str | None:
        """A LIKE pattern that finds the same, and maybe more; None: there is none that would find less than everything."""
        return _beginning(self.text) if self.like is None else self.like

    def search(self, value: str) -> bool:
        return self.searcher()(value) is not None

    def searcher(self) -> Callable[[str], Any]:
        """Returns a function that searches a value and returns None if nothing matches. Make it
        once for many values.
        """
        search: Callable[[str], Any] = _compiled(self.text).search
        return search


def parse(name: str, text: str) -> Pattern:
    """Parses the expression of query parameter `name`.

    Raises BadRequest if the expression is empty, malformed or too large, or uses what RE2 does not have:
    back-references, look-ahead and look-behind.
    """
    if not text:
        raise errors.BadRequest(f"Invalid input for query parameter {name}: '' is not a regular expression.")
    if len(text) > MAX_PATTERN:
        raise errors.BadRequest(
            f"Invalid input for query parameter {name}: the pattern is {len(text)} characters long; {MAX_PATTERN} are allowed."
        )
    like_pattern = like(text)
    if like_pattern is None:
        _check(name, text)
    return Pattern(text, like_pattern)


def _check(name: str, text: str) -> None:
    try:
        size = _compiled(text).programsize
    except re2.error as error:
        raise errors.BadRequest(
            f"Invalid input for query parameter {name}: '{text}' is not a regular expression of RE2: {_reason(error)}."
        ) from None
    if size > MAX_INSTRUCTIONS:
        raise errors.BadRequest(
            f"Invalid input for query parameter {name}: the pattern compiles to {size} instructions; {MAX_INSTRUCTIONS} are allowed."
        )


def _compiled(text: str) -> Any:
    # RE2's module caches the last 128 expressions. A look-up in its cache takes 40 µs.
    return re2.compile(text, _OPTIONS)


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


def like(pattern: str) -> str | None:
    """The LIKE pattern for an expression of text, `^`, `$`, `.`, `.*` and escaped characters; None for any other."""
    start = "" if pattern.startswith("^") else "%"
    result, at = [start], 0 if start else 1
    while at < len(pattern):
        if pattern[at] == "$" and at == len(pattern) - 1:
            return "".join(result)
        token = _TOKEN.match(pattern, at)
        if token is None:
            return None
        result.append(_piece(token))
        at = token.end()
    return "".join([*result, "%"])


def _beginning(pattern: str) -> str | None:
    """The LIKE pattern for the beginning of an expression, up to its first group, class or repetition."""
    start = "" if pattern.startswith("^") else "%"
    pieces, at = list[str](), 0 if start else 1
    while (token := _TOKEN.match(pattern, at)) is not None:
        pieces.append(_piece(token))
        at = token.end()
    if pattern[at : at + 1] in {"*", "+", "?", "{"}:
        pieces = pieces[:-1]
    if not any(piece not in {"%", "_"} for piece in pieces) or _has_alternatives(pattern[at:]):
        return None
    return "".join([start, *pieces, "%"])


def _has_alternatives(pattern: str) -> bool:
    """Whether `|` may stand outside of a group: what precedes it is then not needed."""
    if "|" not in pattern:
        return False
    if "[" in pattern or r"\Q" in pattern:
        return True
    depth = 0
    for letter in re.sub(r"\\.", "", pattern):
        depth += (letter == "(") - (letter == ")")
        if letter == "|" and depth < 1:
            return True
    return False


def _piece(token: Any) -> str:
    if token["any"]:
        return "%"
    if token["one"]:
        return "_"
    letter: str = token["escaped"] or token["plain"]
    return "\\" + letter if letter in "%_\\" else letter
