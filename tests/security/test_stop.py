"""A request that does not end keeps no process from ending, and its client learns that the service stops."""

import http.client
import signal
import subprocess
import sys

from minova.api.listener.bridge import STOPPING

PROGRAM = """
import threading
from minova import service
from minova.api.listener.bridge import ListenerCapacity
from minova.api.listener.service import HttpService, Listen

def app(env, start_response):
    print("busy", flush=True)
    threading.Event().wait()

stopping = threading.Event()
service.stop_on_signals(stopping)
listen = Listen(host="127.0.0.1", port=0, host_option="a", port_option="b", capacity=ListenerCapacity(reads=2))
server = HttpService("api", app, listen)
service.run([server], stopping, lambda: print(server.port, flush=True))
"""


def test_sigterm_ends_a_process_with_a_request_that_does_not_end() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            client.request("DELETE", "/")
            assert process.stdout.readline() == "busy\n"
            process.send_signal(signal.SIGTERM)
            answer = client.getresponse()
            # It was 500, which says that the service is broken; 503 says that another try will do.
            assert (answer.status, answer.headers["Retry-After"], answer.read()) == (503, "1", STOPPING)
            client.close()
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()
