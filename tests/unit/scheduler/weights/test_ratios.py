"""Options of the form name=ratio."""

import pytest

from minova.scheduler.weights.ratios import ratios


def test_invalid_elements_are_left_out_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert ratios(["cpu=1.5", "=2", "disk", "ram=much", "cpu=-1"], "setting") == [("cpu", 1.5), ("cpu", -1.0)]
    assert caplog.messages == ["Ignoring the invalid elements of the option setting: =2, disk, ram=much"]


def test_valid_elements_are_no_reason_for_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert ratios(["cpu=1"], "setting") == [("cpu", 1.0)]
    assert caplog.messages == []
