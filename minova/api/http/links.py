"""Links of OpenStack's answers."""

from collections.abc import Sequence
from urllib.parse import urlencode

import msgspec

from minova.api.http.call import Call


class Link(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    rel: str
    href: str
    type: str | None = None


def of_thing(call: Call, kind: str, identity: str) -> tuple[Link, ...]:
    """Links to a server or flavor: with the API's version, and without."""
    return (
        Link(rel="self", href=call.url(f"/v2.1/{kind}/{identity}")),
        Link(rel="bookmark", href=call.url(f"/{kind}/{identity}")),
    )


def bookmark(call: Call, kind: str, identity: str) -> tuple[Link, ...]:
    return (Link(rel="bookmark", href=call.url(f"/{kind}/{identity}")),)


def next_page(call: Call, marker: str) -> tuple[Link, ...]:
    return (Link(rel="next", href=call.url(next_path(call, marker))),)


def next_path(call: Call, marker: str) -> str:
    """The path of the page after `marker`, with the same query."""
    pairs: list[tuple[str, str]] = []
    for key, value in call.request.params.items():
        values: Sequence[str] = value if isinstance(value, list) else [value]
        pairs += [(key, each) for each in values if key != "marker"]
    return f"{call.request.path}?{urlencode([*pairs, ('marker', marker)])}"


def first_path(call: Call) -> str:
    """The path of the first page, with the same query."""
    path = next_path(call, "").rpartition("marker=")[0]
    return path.rstrip("?&")
