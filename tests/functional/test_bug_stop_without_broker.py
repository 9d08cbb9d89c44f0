"""A stop waited for a minute for a broker that was away, and longer, until systemd killed the process."""

import subprocess
import sys
import time
from pathlib import Path

PROGRAM = """
import os, signal, sys, threading
from minova.cmd.startup import launch

launch.STOP_WITHIN = 1.0

class Hangs:
    binary = "minova-compute"
    waits_for_work = {waits}

    def start(self):
        pass

    def stop(self):
        threading.Timer({ends}, lambda: setattr(self, "waits_for_work", False)).start()
        threading.Event().wait()

sys.argv = ["minova-compute", "--config-file", os.devnull]
launch.launch(
    "minova-compute", lambda conf, stopping: [Hangs()], ready=lambda conf: signal.raise_signal(signal.SIGTERM)
)
"""


def stopped(tmp_path: Path, *, waits: bool, ends: float) -> tuple[int, float]:
    begun = time.monotonic()
    program = PROGRAM.format(waits=waits, ends=ends)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert "are left behind" in done.stdout, done.stderr
    return done.returncode, time.monotonic() - begun


def test_bug_stop_waits_for_what_does_not_answer(tmp_path: Path) -> None:
    code, _ = stopped(tmp_path, waits=False, ends=0.0)
    assert code == 0


def test_a_stop_waits_longer_for_work_that_proceeds(tmp_path: Path) -> None:
    code, took = stopped(tmp_path, waits=True, ends=3.0)
    assert code == 0
    assert took > 3.5
