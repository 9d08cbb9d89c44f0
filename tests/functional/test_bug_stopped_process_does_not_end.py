"""A conductor that had stopped went on for more than a minute: one of its threads sent a message to a broker that was away.

The interpreter waits for the threads of executors, and a service manager loses patience after a while.
"""

import subprocess
import sys

PROGRAM = """
import os, signal, sys, threading
from concurrent.futures import ThreadPoolExecutor
from minova.cmd.startup import launch

launch.EXIT_GRACE = 0.5
workers = ThreadPoolExecutor(1, thread_name_prefix="message")

class Waits:
    binary = "minova-conductor"

    def start(self):
        workers.submit(threading.Event().wait)

    def stop(self):
        pass

sys.argv = ["minova-conductor", "--config-file", os.devnull]
launch.launch(
    "minova-conductor", lambda conf, stopping: [Waits()], ready=lambda conf: signal.raise_signal(signal.SIGTERM)
)
"""


def test_process_ends_although_a_message_is_worked_on() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "threads still work and are left behind: message_0" in done.stdout
