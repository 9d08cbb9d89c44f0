"""What a process tells systemd."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from minova.cmd.startup.systemd import Watchdog, notify


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        yield listener


def test_a_message_has_a_line_for_each_value(systemd: socket.socket) -> None:
    notify({"NOTIFY_SOCKET": systemd.getsockname()}, READY="1", STATUS="no\nbroker")
    assert systemd.recv(1000) == b"READY=1\nSTATUS=no broker"


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": "/nowhere/notify"}])
def test_a_process_without_systemd_tells_nothing(environment: dict[str, str]) -> None:
    notify(environment, READY="1")


def test_the_watchdog_hears_of_the_process_once_in_a_third_of_its_time(systemd: socket.socket) -> None:
    environment = {
        "NOTIFY_SOCKET": systemd.getsockname(),
        "WATCHDOG_USEC": "600000000",
        "WATCHDOG_PID": str(os.getpid()),
    }
    watchdog = Watchdog(environment)
    watchdog()
    watchdog()
    assert systemd.recv(1000) == b"WATCHDOG=1"
    with pytest.raises(BlockingIOError):
        systemd.recv(1000)


def test_the_watchdog_of_another_process_hears_nothing(systemd: socket.socket) -> None:
    Watchdog({"NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"})()
    with pytest.raises(BlockingIOError):
        systemd.recv(1000)
