"""What a process tells systemd."""

import os
import signal
import socket
import subprocess
import sys
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


@pytest.mark.skipif(os.geteuid() != 0, reason="the helper is root")
def test_bug_network_helper_did_not_say_when_it_serves(systemd: socket.socket, tmp_path: Path) -> None:
    systemd.settimeout(60)
    environment = {**os.environ, "NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": "300000"}
    own, of_metadata = tmp_path / "own" / "sock", tmp_path / "other" / "sock"
    program = "from minova.cmd.network_helper import main; main()"
    words = ("--user", "0", "--socket", own, "--metadata-socket", of_metadata, "--run-dir", tmp_path / "run")
    with subprocess.Popen([sys.executable, "-c", program, *map(str, words)], env=environment) as helper:
        try:
            assert systemd.recv(1000) == b"READY=1\nSTATUS=Serves"
            for path in (own, of_metadata):
                with socket.socket(socket.AF_UNIX) as asking:
                    asking.connect(str(path))
            assert systemd.recv(1000) == b"WATCHDOG=1"
        finally:
            helper.send_signal(signal.SIGTERM)
        assert helper.wait(60) == 0
