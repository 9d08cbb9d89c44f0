"""Patterns of listings: which LIKE finds them, and which RE2 runs."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova import errors
from minova.db.api_queries.patterns import MAX_INSTRUCTIONS, Pattern, like, parse

PATTERNS = {
    "web": "%web%",
    "^web": "web%",
    "web$": "%web",
    "^web$": "web",
    "": "%%",
    "^$": "",
    "a.*b": "%a%b%",
    "a.b": "%a_b%",
    "50%": "%50\\%%",
    "a_b": "%a\\_b%",
    r"^a\.b\$$": "a.b$",
    r"^a\\$": "a\\\\",
    r"^a\ b$": "a b",
}
FOUND = {
    r"^.*\-instance\-[0-9]+$": ("tempest-instance-17", "tempest-instance-x"),
    "^(web|db)[0-9]?$": ("DB7", "web77"),
    "a+b": ("caab", "b"),
    r"\d{3}": ("n123", "n12"),
    "é|ü": ("Übung", "Ebung"),
}
# What every match is like, so that a database may leave out the rest.
NEEDED = {
    "a.c$": "%a_c",
    r"^10\.0\.(1|2)\.": "10.0.%",
    "ab+c": "%a%",
    "^ab{2}": "a%",
    "a[bc]": "%a%",
    "(a|b)c": None,
    "a|b+": None,
    "^a(b|c)|d": None,
    "a[|]b": None,
    r"a(\Q(\E|b)": None,
    r"a(b\)|c)+": "%a%",
    r"a\(b+|c": None,
}
REFUSED = ["", "(a", "*", "a\\", r"(a)\1", "(?=x)", "(?<=a)b", "x{2000}", "[b-a]"]
SLOW = ["(a+)+$", "(.*a){40}$", "(a?){100}a{100}", "(a|aa)+$", "(x+x+)+y", "([a-z]+)*[0-9]"]


@pytest.mark.parametrize(("pattern", "expected"), PATTERNS.items())
def test_a_name_pattern_becomes_a_like_pattern(pattern: str, expected: str) -> None:
    assert like(pattern) == expected


@pytest.mark.parametrize(("pattern", "texts"), FOUND.items())
def test_any_other_expression_is_run_by_re2(pattern: str, texts: tuple[str, str]) -> None:
    parsed = parse("name", pattern)
    assert parsed == Pattern(pattern, None)
    assert [parsed.search(text) for text in texts] == [True, False]


@pytest.mark.parametrize(("pattern", "expected"), NEEDED.items())
def test_what_an_expression_begins_with_is_needed(pattern: str, expected: str | None) -> None:
    assert parse("name", pattern).needed == expected


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_is_no_expression_is_refused_with_the_parameter(pattern: str) -> None:
    with pytest.raises(errors.BadRequest, match="query parameter key_name: "):
        parse("key_name", pattern)


@pytest.mark.parametrize("pattern", [".{200}", r"(\w{20}){20}"])
def test_an_expression_that_compiles_to_much_is_refused(pattern: str) -> None:
    with pytest.raises(errors.BadRequest, match=f"instructions; {MAX_INSTRUCTIONS} are allowed"):
        parse("name", pattern)


@pytest.mark.parametrize("pattern", SLOW)
def test_no_expression_takes_long(pattern: str) -> None:
    """Engines that go back take longer than the age of the world for these."""
    parsed = parse("name", pattern)
    began = time.process_time()
    for text in ("a" * 255, "x" * 255, "a" * 254 + "!"):
        parsed.search(text)
    assert time.process_time() - began < 1


@given(st.text(alphabet=st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=40))
def test_an_escaped_name_finds_just_itself(name: str) -> None:
    pattern = like(f"^{re.escape(name)}$")
    assert pattern is not None
    assert re.sub(r"\\(.)", r"\1", pattern) == name
