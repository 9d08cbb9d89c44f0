"""What a thing may be called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova import errors
from minova.api.http.names import checked, fault_of

FINE = [
    "a",
    "web-1",
    "x" * 255,
    "<server>&amp;</server>",
    "Grüße aus Köln",
    "日本",
    "a b",
    "'; DROP TABLE instances; --",
    "%s",
]
WRONG = {
    "": "empty",
    "x" * 256: "256 characters",
    "x" * 300: "300 characters",
    " a": "white space",
    "a ": "white space",
    "a\nb": "U+000A",
    "a\x00b": "U+0000",
    "a\x1b[31m": "U+001B",
    "a\x7fb": "U+007F",
    "a\u202eb": "U+202E",
    "a\u2028b": "U+2028",
}


@pytest.mark.parametrize("name", FINE)
def test_a_printable_name_is_fine(name: str) -> None:
    assert checked("Server name", name) == name


@pytest.mark.parametrize(("name", "why"), WRONG.items())
def test_a_wrong_name_is_refused_with_its_reason(name: str, why: str) -> None:
    assert why in (fault_of(name) or "")
    with pytest.raises(errors.BadRequest, match="Server name is not valid"):
        checked("Server name", name)


@given(st.text(max_size=300))
def test_whatever_is_accepted_is_short_and_can_be_printed(name: str) -> None:
    if fault_of(name) is None:
        assert 1 <= len(name) <= 255
        assert name == name.strip()
        assert all(
            letter.isprintable() or letter in "\u00a0\u1680\u2000\u202f\u205f\u3000" or letter.isspace()
            for letter in name
        )
        assert not set(name) & {"\n", "\r", "\t", "\x00", "\x1b", "\x7f"}
