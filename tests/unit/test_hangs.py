"""A suite of its own, in which a test waits without end after its time-out."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
import pytest
from tests import hangs
from tests.distribution import Distribution

hangs.GRACE = 0.5

@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return Distribution(config, log)

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    with hangs.end_process_at_hang(item):
        return (yield)
"""
SUITE = """
import threading
from concurrent.futures import ThreadPoolExecutor
import pytest

@pytest.mark.timeout(0.5)
def test_hangs():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(threading.Event().wait).result()

def test_passes():
    pass
"""


def test_bug_a_hanging_test_keeps_the_run_from_ending(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    words = ["-p", "xdist", "-p", "pytest_timeout", "--numprocesses", "1", "--max-worker-restart", "2"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stdout
    assert "Timeout (0:00:01)!" in done.stdout
    assert "in test_hangs" in done.stdout
    assert "1 failed, 1 passed" in done.stdout.splitlines()[-1]
