"""The tests' own way to run executables."""

import os
import signal
import socket
import tempfile
from collections.abc import Iterator

import psutil
import pytest

from tests.integration.preloaded import Process, run


@pytest.fixture
def waiting() -> Iterator[Process]:
    """A command that waits for an answer that never comes."""
    with tempfile.TemporaryFile() as out, socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent.settimeout(60)
        access = {"MINOVA_URL": f"http://127.0.0.1:{silent.getsockname()[1]}", "MINOVA_TOKEN": "t"}
        with Process(["minova", "server", "list"], out, out, dict(os.environ) | access) as process, silent.accept()[0]:
            yield process


def test_bug_ctrl_c_ended_the_tests_in_a_value_error(waiting: Process) -> None:
    """All processes of the terminal get the signal: it ended those that tell how the executable has ended."""
    watcher = psutil.Process(waiting.pid).parent()
    assert watcher is not None
    for pid in (watcher.ppid(), watcher.pid, waiting.pid):
        os.kill(pid, signal.SIGINT)
    assert waiting.wait(60) == 130
    assert run(["minova", "--version"]).returncode == 0


def test_process_has_died_with_its_watcher(waiting: Process) -> None:
    watcher = psutil.Process(waiting.pid).parent()
    assert watcher is not None
    watcher.kill()
    assert waiting.wait(60) == -signal.SIGKILL
