"""What another client waits for while slow ones hold connections.

minova-api with TLS over a database of 100 servers. Idle TLS connections, a fifth as many trickling and a twentieth half-open ones come from other addresses
of loopback; then requests for a list of servers, each with a connection of its own. docs/decisions/0028 has the answers.
"""

import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from tests.benchmarks.command_line import Option, parse
from tests.functional.api.conftest import Cloud
from tests.security.http_process import connect, make_certificate, read_all
from tests.servers.private_server import free_ports
from tests.tables import make_tables
from tests.waiting import wait_for

SERVERS = 100
HEAD = b"GET /v2.1/servers?all_tenants=1 HTTP/1.1\r\nHost: localhost\r\n"


def start(folder: Path, port: int, workers: int) -> "subprocess.Popen[bytes]":
    make_tables(f"sqlite:///{folder}/minova.sqlite")
    cloud = Cloud(folder).with_catalogue()
    for number in range(SERVERS):  # each of a project of its own, for the quotas
        cloud.make_server(f"vm{number}", headers={"X-Auth-Token": f"admin:project{number}"})
    cloud.close()
    make_certificate(folder)
    conf = folder / "minova.conf"
    conf.write_text(
        f"[DEFAULT]\nstate_path = {folder}\ntransport_url = kombu+memory://localhost/\n"
        f"[database]\nconnection = sqlite:///{folder}/minova.sqlite\n"
        f"[api]\nworkers = {workers}\nosapi_compute_listen_port = {port}\n"
        f"ssl_cert_file = {folder}/cert.pem\nssl_key_file = {folder}/key.pem\n"
    )
    return subprocess.Popen([str(Path(sys.executable).parent / "minova-api"), "--config-file", str(conf)])


def measure(port: int, tls: ssl.SSLContext, requests: int) -> str:
    times = []
    for _ in range(requests):
        begun = time.perf_counter()
        with connect(port, "127.0.0.9", tls) as client:
            client.sendall(HEAD + b"Connection: close\r\n\r\n")
            answer = read_all(client)
        assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
        times.append(1000 * (time.perf_counter() - begun))
    times.sort()
    return (
        f"p50 {times[len(times) // 2]:6.1f} ms   p99 {times[int(len(times) * 0.99)]:6.1f} ms   max {times[-1]:6.1f} ms"
    )


def memory(process: "subprocess.Popen[bytes]") -> str:
    own = psutil.Process(process.pid)
    return " + ".join(f"{each.memory_info().rss >> 20} MB" for each in (own, *own.children()))


def main() -> None:
    arguments = parse(
        "slow_clients",
        __doc__,
        Option("workers", 1, 1, "processes of minova-api"),
        Option("idle", 1000, 20, "idle connections"),
        Option("requests", 300, 3, "of the other client"),
    )
    idle, requests = arguments.idle, arguments.requests
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (port,) = free_ports(1)
        process = start(folder, port, arguments.workers)
        try:
            tls = ssl.create_default_context(cafile=folder / "cert.pem")
            wait_for("minova-api", lambda: _listens(port))
            print(f"alone         {measure(port, tls, requests)}   memory {memory(process)}", flush=True)
            held = [connect(port, f"127.0.1.{number % 10}") for number in range(idle // 20)]
            trickling = [connect(port, f"127.0.2.{number % 10}", tls) for number in range(idle // 5)]
            for client in trickling:
                client.sendall(HEAD)
            held += [connect(port, f"127.0.3.{number % 10}", tls) for number in range(idle)]
            stop = threading.Event()

            def trickle() -> None:
                while not stop.wait(0.5):
                    for client in trickling:
                        try:
                            client.send(b"x")
                        except OSError:  # it has been closed
                            continue

            threading.Thread(target=trickle, daemon=True).start()
            print(f"under attack  {measure(port, tls, requests)}   memory {memory(process)}", flush=True)
            stop.set()
            for client in held + trickling:
                client.close()
        finally:
            process.terminate()
            process.wait(60)


def _listens(port: int) -> bool:
    try:
        connect(port, "127.0.0.9").close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
