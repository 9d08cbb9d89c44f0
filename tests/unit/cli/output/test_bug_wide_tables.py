"""A record with a long value, such as `hypervisor show` with its cpu_info, fits the terminal and stays whole elsewhere."""

import os
import pty
import subprocess
import sys
import termios

WIDTH = 80
PROGRAM = """
import argparse, sys
from minova.cli.output.table import Table
options = argparse.Namespace(columns=[], max_width=0, fit_width=False, print_empty=False)
value = "{" + ", ".join(f'"feature{n}": true' for n in range(100)) + "}" + "x" * 200
Table().emit_one(["id", "cpu_info"], ["1", value], sys.stdout, options)
"""


def test_it_fits_a_terminal() -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, WIDTH))
    environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "CLIFF_FIT_WIDTH"}}
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=theirs, stdout=theirs, env=environment)
    os.close(theirs)
    shown = b""
    try:
        while data := os.read(ours, 65536):
            shown += data
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait(60) == 0
    lines = shown.decode().replace("\r", "").splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert '"feature99"' in shown.decode()


def test_it_is_whole_elsewhere() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert max(map(len, done.stdout.splitlines())) > 2000
