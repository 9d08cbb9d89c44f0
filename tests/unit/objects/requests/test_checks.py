"""Reasons as people read them."""

import numpy as np

from minova.objects.requests.checks import at_least, at_most, enough_free


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
