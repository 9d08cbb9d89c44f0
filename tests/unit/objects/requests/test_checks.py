"""Reasons as people read them."""

import numpy as np

from minova.objects.requests.checks import at_least, at_most, below, enough_free


def test_a_reason_has_unit_and_details() -> None:
    check = enough_free("memory", 512, 2048, "MB", limit=6144.0, used=5632)
    assert not check.passed
    assert check.reason() == "free memory 512 MB < requested 2048 MB (limit 6144 MB, used 5632 MB)"


def test_of_columns_it_is_the_reason_of_one_row() -> None:
    check = enough_free("vcpus", np.array([0.5, 8.0]), 2, limit=np.array([4, 8]))
    assert list(check.passed) == [False, True]
    assert check.reasons(np.array([0])) == ["free vcpus 0.5 < requested 2 (limit 4)"]


def test_a_bound_from_above() -> None:
    assert at_most("instances", 50, 49).reason() == "instances 50 > allowed 49"


def test_the_exempt_pass_whatever_they_have() -> None:
    check = at_least("vcpus", np.array([0, 1]), 2).unless(np.array([True, False]))
    assert list(check.passed) == [True, False]


def test_bounds_hold_at_their_limit() -> None:
    for have, reaches, within, under in ((4, False, True, True), (5, True, True, False), (6, True, False, False)):
        assert at_least("x", have, 5).passed is reaches
        assert enough_free("x", have, 5).passed is reaches
        assert at_most("x", have, 5).passed is within
        assert below("x", have, 5).passed is under


def test_what_is_compared_is_said_without_numbers() -> None:
    assert (enough_free("memory", 1, 2).what, enough_free("memory", 1, 2).kind) == (
        "not enough free memory",
        "free memory",
    )
    assert (at_most("instances", 1, 2).what, at_most("instances", 1, 2).kind) == ("instances > allowed", "instances")
    assert (below("members:", 1, 2).what, below("members:", 1, 2).kind) == ("members >= limit", "members:")
    other = at_least("unit", 1, 2)._replace(sign="!=")
    assert (other.what, other.kind) == ("unit != requested", "unit != requested")


def test_one_number_stands_for_all_rows() -> None:
    rows = np.array([0, 1])
    assert at_least("vcpus", 1, np.array([2, 3])).reasons(rows) == ["vcpus 1 < requested 2", "vcpus 1 < requested 3"]
    assert at_least("vcpus", 0.123456789012, 2).reason() == "vcpus 0.123456789 < requested 2"
