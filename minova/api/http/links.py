"""Links in OpenStack's answers."""

from collections.abc import Sequence
from urllib.parse import urlencode

import msgspec

from minova.api.http.call import Call


class Link(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    rel: str
    href: str
    type: str | None = None


class LinkBases:
    """The common prefixes of the links to one kind of resource, computed once per answer."""

    def __init__(self, call: Call, kind: str) -> None:
        self._self = call.url(f"/v2.1/{kind}/")
        self._bookmark = call.url(f"/{kind}/")

    def links_to(self, identity: str) -> tuple[Link, ...]:
        """Returns the links with and without the API's version."""
        return Link(rel="self", href=self._self + identity), Link(rel="bookmark", href=self._bookmark + identity)

    def bookmark(self, identity: str) -> tuple[Link, ...]:
        return (Link(rel="bookmark", href=self._bookmark + identity),)


def links_to(call: Call, kind: str, identity: str) -> tuple[Link, ...]:
    """Returns the links to a server or flavor, with and without the API's version."""
    return LinkBases(call, kind).links_to(identity)


def bookmark(call: Call, kind: str, identity: str) -> tuple[Link, ...]:
    return LinkBases(call, kind).bookmark(identity)


def is_full(page: Sequence[object], size: int) -> bool:
    """Whether a page links to the next one. As in Nova, it does if it has the most items that it may have; the next
    page may be empty.
    """
    return 0 < size == len(page)


def next_page(call: Call, marker: str) -> tuple[Link, ...]:
    return (Link(rel="next", href=call.url(next_path(call, marker))),)


def next_path(call: Call, marker: str) -> str:
    """Returns the path of the page after `marker`, with the same query. As in Nova, parameters are sorted, and a new
    marker is the last one.
    """
    pairs = _parameters(call)
    before = sum(key < "marker" for key, _ in pairs) if "marker" in call.request.params else len(pairs)
    return f"{call.request.path}?{urlencode([*pairs[:before], ('marker', marker), *pairs[before:]])}"


def first_path(call: Call) -> str:
    """Returns the path of the first page, with the same query."""
    query = urlencode(_parameters(call))
    return f"{call.request.path}?{query}" if query else str(call.request.path)


def _parameters(call: Call) -> list[tuple[str, str]]:
    """Returns the parameters of the query except the marker, sorted by name."""
    pairs: list[tuple[str, str]] = []
    for key, value in sorted(call.request.params.items()):
        values: Sequence[str] = value if isinstance(value, list) else [value]
        pairs += [(key, each) for each in values if key != "marker"]
    return pairs
