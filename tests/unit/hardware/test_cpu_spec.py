"""Sets of CPUs as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova.hardware import cpu_spec


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("3", {3}),
        ("0-3,^2,8", {0, 1, 3, 8}),
        ("^2,8,0-3", {0, 1, 3, 8}),
        (" 1 , 5 - 6 ", {1, 5, 6}),
        ("1,,2,", {1, 2}),
    ],
)
def test_numbers_ranges_and_exclusions_in_any_order(text: str, cpus: set[int]) -> None:
    assert cpu_spec.parse(text) == cpus


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "names no CPU"),
        ("^1", "names no CPU"),
        ("1,^1", "names no CPU"),
        ("3-1", "3 > 1"),
        ("one", "'one' is neither"),
        ("-1", "'-1' is neither"),
        ("1-", "'1-' is neither"),
        ("0-99999999999", "there is no CPU 99999999999"),
    ],
)
def test_what_is_no_set_says_why(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        cpu_spec.parse(text)


@given(st.frozensets(st.integers(0, 200), min_size=1))
def test_what_is_written_is_read_as_the_same(cpus: frozenset[int]) -> None:
    assert cpu_spec.parse(cpu_spec.write(cpus)) == cpus


def test_it_is_written_as_short_as_it_goes() -> None:
    assert cpu_spec.write([8, 0, 1, 3, 2]) == "0-3,8"
