"""Bodies and page sizes."""

from typing import Any

import msgspec
import pytest

from minova import errors
from minova.api.http.structs import decode, page_size
from minova.codecs import Decoder


@pytest.mark.parametrize(("limit", "expected"), [(None, 100), (0, 0), (7, 7), (101, 100), (10**12, 100)])
def test_page_size_is_the_limit_cut_to_the_maximum(limit: int | None, expected: int) -> None:
    assert page_size(limit, 100) == expected


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(errors.BadRequest, match="limit"):
        page_size(-1, 100)


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    count: int
    on: bool = False


_BODY, _ANY = Decoder(_Body, strict=False), Decoder(Any, strict=False)


def test_numbers_and_booleans_may_come_as_strings() -> None:
    assert decode(b'{"count": "3", "on": "true"}', _BODY) == _Body(count=3, on=True)


BODIES = {
    b"": "has none",
    b"{": "Malformed",
    b"[1]": "Invalid input",
    b'{"count": "x"}': r"\$\.count",
    b'{"count": 1, "coutn": 2}': "coutn",
    b"{}": "count",
    b'{"count": 1' + b"]" * 10: "Malformed",
    b'{"\xff": 1, "count": 1}': "Malformed|Invalid",
    b'{"count": 1, "on": "\\ud800"}': "Malformed",
    b"[" * 100000: "Malformed|Invalid",
}


@pytest.mark.parametrize(("raw", "why"), BODIES.items())
def test_invalid_body_is_refused_with_the_place_of_the_error(raw: bytes, why: str) -> None:
    with pytest.raises(errors.BadRequest, match=why):
        decode(raw, _BODY)
    if raw.startswith(b"[["):
        with pytest.raises(errors.BadRequest, match=r"nested|Malformed"):
            decode(raw, _ANY)
