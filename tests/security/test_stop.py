"""A request that does not end keeps no process from ending."""

import signal
import subprocess
import sys

PROGRAM = """
import threading
from minova import service
from minova.api.listener.service import HttpService, Listen

def app(env, start_response):
    print("busy", flush=True)
    threading.Event().wait()

stopping = threading.Event()
service.stop_on_signals(stopping)
listen = Listen(host="127.0.0.1", port=0, host_option="a", port_option="b", threads=2)
server = HttpService("api", app, listen)
service.run([server], stopping, lambda: print(server.port, flush=True))
"""


def test_sigterm_ends_a_process_with_a_request_that_does_not_end() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            client = subprocess.Popen(
                [sys.executable, "-c", f"import urllib.request as r; r.urlopen('http://127.0.0.1:{port}/')"],
                stderr=subprocess.DEVNULL,
            )
            assert process.stdout.readline() == "busy\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=20) == 0
        finally:
            client.kill()
            client.wait()
            process.kill()
