"""minova-api with two workers: they share an address, what is known of failed logins, and their figures; and stop together."""

import base64
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import bcrypt
import psutil
import pytest
import urllib3

from minova.api.access.throttle import FREE_OF_USER
from tests.servers.private_server import free_ports
from tests.tables import make_tables
from tests.waiting import wait_for

BODY = b'{"flavor": {"name": "f", "ram": 1, "vcpus": 1, "disk": 1}}'


class Api:
    """`minova-api` over a database file, without a conductor. `alice` has the password `right`."""

    def __init__(self, folder: Path) -> None:
        self.port, self.page = free_ports(2)
        self.log_file = folder / "log"
        make_tables(url := f"sqlite:///{folder}/minova.sqlite")
        hashed = bcrypt.hashpw(b"right", bcrypt.gensalt(4)).decode()
        (folder / "htpasswd").write_text(f"alice:{hashed}\n")
        conf = folder / "minova.conf"
        conf.write_text(
            f"[DEFAULT]\nstate_path = {folder}\ntransport_url = kombu+memory://localhost/\n[database]\nconnection = {url}\n"
            f"[api]\nworkers = 2\nosapi_compute_listen_port = {self.port}\nauth_strategy = http_basic\n"
            f"http_basic_auth_user_file = {folder}/htpasswd\n[prometheus]\nenabled = true\nport = {self.page}\n"
        )
        command = [str(Path(sys.executable).parent / "minova-api"), "--config-file", str(conf)]
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "TMPDIR": str(folder)})

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def workers(self) -> list[psutil.Process]:
        return [child for child in psutil.Process(self.process.pid).children() if child.status() != "zombie"]

    def ask(self, password: str = "right", pool: urllib3.PoolManager | None = None) -> int:
        """Status of a listing, over a new connection."""
        with urllib3.PoolManager(retries=False, timeout=30) as new:
            headers = {"Authorization": "Basic " + base64.b64encode(f"alice:{password}".encode()).decode()}
            url = f"http://127.0.0.1:{self.port}/v2.1/servers"
            return (pool or new).request("GET", url, headers=headers).status

    def figures(self) -> str:
        with urllib3.PoolManager(retries=False, timeout=30) as pool:
            return pool.request("GET", f"http://127.0.0.1:{self.page}/metrics").data.decode()


@contextmanager
def started(folder: Path) -> Iterator[Api]:
    running = Api(folder)
    try:
        wait_for(
            "workers", lambda: "2 workers of minova-api listen" in running.log or running.process.poll() is not None
        )
        assert running.process.poll() is None, running.log[-3000:]
        yield running
    finally:
        running.process.kill()
        running.process.wait()


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with started(tmp_path_factory.mktemp("api")) as running:
        yield running


@pytest.fixture
def own_api(tmp_path: Path) -> Iterator[Api]:
    """For a test that ends it, or one of its workers: another test would meet one that is still starting."""
    with started(tmp_path) as running:
        yield running


def test_two_processes_serve_and_a_guesser_meets_one_table(api: Api) -> None:
    assert len(api.workers()) == 2
    assert {api.ask() for _ in range(8)} == {200}
    assert [api.ask("wrong") for _ in range(FREE_OF_USER)] == [401] * FREE_OF_USER
    assert {api.ask("wrong") for _ in range(8)} == {429}, "whichever worker is asked"
    wait_for("the delay is over", lambda: api.ask() == 200)
    assert "Login failed from 127.0.0.1" in api.log
    assert "minova_scheduler_claims_refused_total" in api.figures()


def test_hang_up_reaches_every_worker(api: Api) -> None:
    before = api.log.count("The configuration was read again")
    api.process.send_signal(signal.SIGHUP)
    wait_for("all three", lambda: api.log.count("The configuration was read again") == before + 3)


def test_worker_that_ends_is_replaced(own_api: Api) -> None:
    first = own_api.workers()[0]
    first.kill()
    wait_for(
        "another", lambda: len(own_api.workers()) == 2 and first.pid not in {worker.pid for worker in own_api.workers()}
    )
    assert {own_api.ask() for _ in range(8)} == {200}


def test_workers_end_with_a_parent_that_is_killed(own_api: Api) -> None:
    orphans = own_api.workers()
    own_api.process.kill()
    own_api.process.wait()
    assert psutil.wait_procs(orphans, timeout=60)[1] == []


def test_workers_that_stop_finish_their_requests(own_api: Api) -> None:
    workers = own_api.workers()
    statuses: list[int] = []
    with urllib3.PoolManager(retries=False, timeout=30) as pool:
        begun, go = threading.Event(), threading.Event()

        def parts() -> Iterator[bytes]:
            yield BODY[:10]
            begun.set()
            go.wait(30)
            yield BODY[10:]

        def upload() -> None:
            headers = {
                "Authorization": "Basic " + base64.b64encode(b"alice:right").decode(),
                "Content-Type": "application/json",
            }
            url = f"http://127.0.0.1:{own_api.port}/v2.1/flavors"
            statuses.append(pool.request("POST", url, body=parts(), chunked=True, headers=headers).status)

        thread = threading.Thread(target=upload)
        thread.start()
        begun.wait(30)
        own_api.ask()  # the request before this one has been begun
        own_api.process.terminate()
        wait_for("it listens no more", lambda: not listens(own_api))
        go.set()
        thread.join()
    assert statuses == [403], "the request in flight was answered: flavors are for administrators"
    assert own_api.process.wait(60) == 0, own_api.log[-3000:]
    assert psutil.wait_procs(workers, timeout=60)[1] == []
    assert "Traceback" not in own_api.log


def listens(api: Api) -> bool:
    try:
        api.ask()
    except urllib3.exceptions.HTTPError:
        return False
    return True
