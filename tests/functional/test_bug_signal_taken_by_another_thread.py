"""A compute was asked to stop and went on: the kernel had given SIGTERM to another thread, and the main one slept for an hour.

Python runs the handlers of signals in the main thread only, and a wait of that for a lock goes on if another thread takes the signal.
"""

import subprocess
import sys

PROGRAM = """
import signal, sys, threading, time
from minova import service

stopping = threading.Event()
service.stop_on_signals(stopping)

def take_the_signal():
    main = threading.main_thread().ident
    while sys._current_frames()[main].f_code is not threading.Condition.wait.__code__:
        time.sleep(0.01)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    threading.Event().wait()

threading.Thread(target=take_the_signal, daemon=True).start()
service.run([], stopping)
print("stopped")
"""


def test_a_signal_that_another_thread_has_taken_stops_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "stopped\n"), done.stderr
