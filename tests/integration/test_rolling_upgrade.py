"""From the last release to this one, each service in turn, under load: no request fails and no server is left behind.

Two of each controller service run all the time but for the moment in which one of them is replaced. An API of the last release
answers 503 if a conductor stops with its call; a new API must not.
"""

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from tests.integration.deployment import Executable
from tests.integration.released import BEFORE_RUN_ACTION, Release
from tests.servers.private_server import free_ports
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(600)

HOSTS = ("hv-a", "hv-b")
KINDS = ("conductor", "scheduler", "api")
STARTED = " started"
START = 180  # seconds, on a busy machine
PAUSE = 0.2  # seconds between the requests of the load
ANSWERED_WITHIN = 60.0  # seconds


class Cloud:
    """Executables by name, such as `conductor-1`; each can be replaced by the one of the code under test."""

    def __init__(self, folder: Path, release: Release, transport_url: str, database_url: str) -> None:
        self.folder = folder
        self._transport_url = transport_url
        self._database_url = database_url
        self.ports = free_ports(2)
        self.urls = [f"http://127.0.0.1:{port}" for port in self.ports]
        self.running: dict[str, Executable] = {}
        self.old = {
            **{f"{kind}-{number}": self._controller(kind, number, release) for kind in KINDS for number in (1, 2)},
            **{host: self._compute(host, release) for host in HOSTS},
        }
        self.new = {
            **{f"{kind}-{number}": self._controller(kind, number, None) for kind in KINDS for number in (1, 2)},
            **{host: self._compute(host, None) for host in HOSTS},
        }

    def _options(self, host: str, **groups: dict[str, Any]) -> dict[str, dict[str, Any]]:
        default = {
            "host": host,
            "state_path": self.folder / ("state" if host.startswith("controller") else f"state-{host}"),
            "transport_url": self._transport_url,
            "report_interval": 1,
            "service_down_time": 60,
            "update_resources_interval": 5,
        }
        return {"DEFAULT": {**default, **groups.pop("DEFAULT", {})}, **groups}

    def _controller(self, kind: str, number: int, release: Release | None) -> Executable:
        options = self._options(
            f"controller-{number}",
            database={"connection": self._database_url},
            api={"osapi_compute_listen_port": self.ports[number - 1]},
        )
        folder = self.folder / f"{kind}-{number}-{'old' if release else 'new'}"
        return Executable(f"minova-{kind}", folder, options, release=release)

    def _compute(self, host: str, release: Release | None) -> Executable:
        options = self._options(
            host,
            DEFAULT={
                "compute_driver": "fake",
                "fake_persistent": "true",
                "fake_vcpus": 500,
                "fake_memory_mb": 100000,
                "fake_local_gb": 1000,
            },
            glance={"endpoint_override": self.urls[0]},
        )
        return Executable(
            "minova-compute", self.folder / f"{host}-{'old' if release else 'new'}", options, release=release
        )

    def start(self) -> None:
        for name, executable in self.old.items():
            executable.start()
            self.running[name] = executable
        wait_for("the old release", lambda: all(self.works(name) for name in self.old), START)

    def restart(self, name: str) -> None:
        """The same release again."""
        executable = self.running[name]
        executable.stop()
        before = executable.log.count(STARTED)
        executable.start()
        wait_for(f"{name} again", lambda: executable.log.count(STARTED) > before, START)

    def replace(self, name: str) -> None:
        """Stop the old one as an operator does, start the new one, and wait until it works."""
        code = self.running[name].stop()
        assert code == 0, f"{name} ended with {code}:\n{self.running[name].log[-4000:]}"
        new = self.new[name]
        new.start()
        self.running[name] = new
        wait_for(f"the new {name}", lambda: self.works(name), START)

    def is_old_api(self, url: str) -> bool:
        name = f"api-{self.urls.index(url) + 1}"
        return self.running[name] is self.old[name]

    def works(self, name: str) -> bool:
        if not name.startswith("api-"):
            return STARTED in self.running[name].log
        try:
            return urllib3.request("GET", self.urls[int(name[-1]) - 1], retries=False, timeout=5).status < 500
        except urllib3.exceptions.HTTPError:
            return False

    def logs(self, last: int = 3000) -> str:
        return "\n".join(
            f"--- {each.folder.name}\n{each.log[-last:]}" for each in (*self.old.values(), *self.new.values())
        )

    def close(self) -> None:
        for executable in (*self.old.values(), *self.new.values()):
            executable.kill()


class Client:
    """Sends each request to the first API that answers, as a load balancer does; `failures` has each status above 400.

    Nothing is repeated, but for a 503 of an API of the last release (`is_old` by its URL): `of_old_apis` has those.
    """

    def __init__(self, urls: list[str], is_old: Callable[[str], bool]) -> None:
        self._urls = urls
        self._is_old = is_old
        self.of_old_apis: list[str] = []
        self._http = urllib3.PoolManager(retries=False, timeout=ANSWERED_WITHIN)
        self.failures: list[str] = []
        self.answers: Counter[str] = Counter()

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        until = time.monotonic() + ANSWERED_WITHIN
        while True:
            for url in self._urls:
                old = self._is_old(url)  # before the answer: meanwhile it may be replaced
                try:
                    # A connection that is kept open would be reset by the API that stops.
                    headers = {"Connection": "close", **more.get("headers", {})}
                    answer = self._http.request(method, url + path, json=body, **{**more, "headers": headers})
                except urllib3.exceptions.HTTPError:
                    continue
                if answer.status == 503 and old and time.monotonic() < until:
                    self.of_old_apis.append(f"{method} {path}: {answer.data!r}")
                    break
                return self._read(method, path, answer)
            if time.monotonic() > until:
                self.failures.append(f"{method} {path}: no API answers")
                raise AssertionError(self.failures[-1])
            time.sleep(0.05)

    def _read(self, method: str, path: str, answer: urllib3.BaseHTTPResponse) -> Any:
        self.answers[f"{method} {answer.status}"] += 1
        if answer.status >= 400:
            self.failures.append(f"{method} {path}: {answer.status} {answer.data!r}")
            return None
        return answer.json() if answer.data else {}

    def create(self, name: str, image: str) -> str | None:
        body = {"server": {"name": name, "flavorRef": "1", "imageRef": image}}
        answer = self.ask("POST", "/v2.1/servers", body, headers={"X-Minova-Request-UUID": str(uuid.uuid4())})
        return None if answer is None else str(answer["server"]["id"])

    def statuses(self) -> dict[str, str]:
        servers = self.ask("GET", "/v2.1/servers/detail?limit=1000")["servers"]
        return {server["id"]: server["status"] for server in servers}

    def services_up(self) -> set[tuple[str, str]]:
        services = self.ask("GET", "/v2.1/os-services")["services"]
        # The old API calls them minova-, the new one nova-, as scripts expect.
        return {(each["binary"].removeprefix("mi"), each["host"]) for each in services if each["state"] == "up"}


class Load:
    """Creates and deletes until it is stopped."""

    def __init__(self, client: Client, image: str) -> None:
        self._client = client
        self._image = image
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="load")
        self.alive: list[str] = []
        self.deleted: list[str] = []
        self._thread.start()

    def _work(self) -> None:
        number = 0
        while not self._stopping.wait(PAUSE):
            number += 1
            server = self._client.create(f"vm-{number}", self._image)
            if server is not None:
                self.alive.append(server)
            if number % 3 == 0 and len(self.alive) > 4:
                server = self.alive.pop(number % len(self.alive))
                self._client.ask("DELETE", f"/v2.1/servers/{server}")
                self.deleted.append(server)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return Release(tmp_path_factory.mktemp("release"))


@pytest.fixture
def cloud(
    tmp_path: Path, release: Release, fresh_rabbit_url: Callable[[], str], fresh_postgresql_url: Callable[[], str]
) -> Iterator[Cloud]:
    cloud = Cloud(tmp_path, release, fresh_rabbit_url(), fresh_postgresql_url())
    try:
        yield cloud
    finally:
        cloud.close()


def stocked(client: Client) -> str:
    """A flavor and an image; answers the image's id."""
    flavor = {"id": "1", "name": "tiny", "ram": 128, "vcpus": 1, "disk": 1}
    client.ask("POST", "/v2.1/flavors", {"flavor": flavor})
    described = {"name": "i", "disk_format": "raw", "container_format": "bare"}
    image = str(client.ask("POST", "/v2/images", described)["id"])
    kind = {"Content-Type": "application/octet-stream"}
    client._http.request("PUT", f"{client._urls[0]}/v2/images/{image}/file", body=b"\1" * 4096, headers=kind)
    return image


def settled(client: Client, load: Load) -> bool:
    statuses = client.statuses()
    return all(statuses.get(server) == "ACTIVE" for server in load.alive) and len(statuses) == len(load.alive)


CONTROLLERS = [f"{kind}-{number}" for kind in KINDS for number in (1, 2)]
ORDERS = {
    "controllers first": [*CONTROLLERS, *HOSTS],
    "computes first": [*HOSTS, *reversed(CONTROLLERS)],
}


@pytest.mark.nightly("minutes of load; tests/faults/test_bug_rolling_upgrade.py has the invariants")
@pytest.mark.parametrize("order", ORDERS)
def test_bug_rolling_upgrade_each_service_in_turn_under_load(cloud: Cloud, order: str) -> None:
    cloud.old["conductor-1"].manage("db", "upgrade")
    cloud.start()
    client = Client(cloud.urls, cloud.is_old_api)
    everyone = {(f"nova-{kind}", f"controller-{number}") for kind in ("conductor", "scheduler") for number in (1, 2)}
    everyone |= {("nova-compute", host) for host in HOSTS}
    wait_for("every old service up", lambda: everyone <= client.services_up(), START)
    load = Load(client, stocked(client))
    try:
        wait_for("servers of the old release", lambda: "ACTIVE" in client.statuses().values(), 90)
        cloud.new["conductor-1"].manage("db", "upgrade")
        cloud.restart("conductor-2")  # a service of the last release starts on the new tables, too
        for name in ORDERS[order]:
            cloud.replace(name)
            before = len(load.alive) + len(load.deleted)
            wait_for(f"load after {name}", lambda: len(load.alive) + len(load.deleted) >= before + 3, 60)  # noqa: B023
    finally:
        load.stop()
    try:
        wait_for("every server to be ACTIVE or gone", lambda: settled(client, load), 120)
        assert client.failures == []
        assert everyone <= client.services_up()
    except AssertionError as error:
        raise AssertionError(f"{error}\n{client.failures}\n{client.statuses()}\n{cloud.logs()}") from None
    print(f"{order}: {dict(client.answers)}; 503 of the last release's APIs: {client.of_old_apis}")
    assert len(load.deleted) >= 3
    for executable in (*cloud.old.values(), *cloud.new.values()):
        assert "UnsupportedVersion" not in executable.log
        assert "PeerTooOld" not in executable.log


@pytest.mark.nightly("two minutes; the wire of the last release is compared each day")
def test_servers_of_the_commit_before_run_action_go_on_after_all_services_were_replaced(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    fresh_rabbit_url: Callable[[], str],
    fresh_postgresql_url: Callable[[], str],
) -> None:
    """Its services say that they are of 0.2.0, but have a method for each action. So all are stopped first."""
    release = Release(tmp_path_factory.mktemp("before"), BEFORE_RUN_ACTION)
    cloud = Cloud(tmp_path, release, fresh_rabbit_url(), fresh_postgresql_url())
    try:
        cloud.old["conductor-1"].manage("db", "upgrade")
        cloud.start()
        client = Client(cloud.urls, cloud.is_old_api)
        hosts = {("nova-compute", host) for host in HOSTS}
        wait_for("every old compute up", lambda: hosts <= client.services_up(), START)
        image = stocked(client)
        earlier = client.create("earlier", image)
        wait_for("a server of that commit", lambda: client.statuses().get(str(earlier)) == "ACTIVE", 90)
        for name in cloud.old:
            assert cloud.running[name].stop() == 0, name
        cloud.new["conductor-1"].manage("db", "upgrade")
        for name, executable in cloud.new.items():
            executable.start()
            cloud.running[name] = executable
        wait_for("the new services", lambda: all(cloud.works(name) for name in cloud.new), START)
        wait_for("every new compute up", lambda: hosts <= client.services_up(), START)
        for key, status in (("pause", "PAUSED"), ("unpause", "ACTIVE"), ("os-stop", "SHUTOFF"), ("os-start", "ACTIVE")):
            client.ask("POST", f"/v2.1/servers/{earlier}/action", {key: None})
            wait_for(key, lambda: client.statuses().get(str(earlier)) == status, 60)  # noqa: B023
        later = client.create("later", image)
        wait_for("a new server", lambda: client.statuses().get(str(later)) == "ACTIVE", 90)
        client.ask("DELETE", f"/v2.1/servers/{earlier}")
        wait_for("its deletion", lambda: client.statuses() == {later: "ACTIVE"}, 60)
        assert client.failures == []
    except AssertionError as error:
        raise AssertionError(f"{error}\n{cloud.logs()}") from None
    finally:
        cloud.close()
