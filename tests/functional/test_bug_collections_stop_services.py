"""A full garbage collection looked at all that the imports had made, for 0.1 s, while all threads of the service stood still."""

import subprocess
import sys

PROGRAM = """
import gc, os, signal, sys
from minova.cmd.startup import launch
import minova.cmd.conductor

class Idle:
    binary = "minova-conductor"
    failure = None

    def start(self):
        pass

    def stop(self):
        print(len(gc.get_objects()), gc.get_freeze_count())

sys.argv = ["minova-conductor", "--config-file", os.devnull]
launch.launch(
    "minova-conductor", lambda conf, stopping: [Idle()], ready=lambda conf: signal.raise_signal(signal.SIGTERM)
)
"""


def test_collections_look_at_little_of_a_service_that_has_started() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    looked_at, left_out = map(int, done.stdout.splitlines()[-1].split())
    assert looked_at * 10 < left_out
