"""`uptime` in Nova's form, which Tempest reads."""

import re

import pytest

from minova.errors import HypervisorError
from minova.virt.uptime import uptime


def test_output_has_time_uptime_and_load() -> None:
    assert re.search(r"^ \d\d:\d\d:\d\d up .*load average: [\d.]+, [\d.]+, [\d.]+\n$", uptime())


def test_missing_program_is_an_error_of_the_hypervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(HypervisorError, match="uptime failed"):
        uptime()
