"""Each look at a witness that had seen more switched a conductor's doubt on and off: 60 lines in two minutes of safe mode."""

import logging

import pytest

from minova.objects.hosts.cloud import LOST, OTHER_CLOUD
from minova.safe_mode import SafeMode


def test_one_line_for_one_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    safe_mode = SafeMode()
    safe_mode.hold("database", LOST, "conductor-1")
    for number in range(5):
        safe_mode.hold("doubt", LOST, f"compute-{number}")
        safe_mode.release("doubt")
    safe_mode.hold("doubt", OTHER_CLOUD)
    for part in ("doubt", "database"):
        safe_mode.release(part)
    safe_mode.hold("database", LOST)
    lines = [record.getMessage().partition(".")[0] for record in caplog.records]
    assert lines == [
        f"Safe mode: {LOST} (conductor-1)",
        f"Safe mode: {OTHER_CLOUD}",
        "Safe mode has ended",
        f"Safe mode: {LOST}",
    ]
