"""Hosts that died together counted as up for ever: an hour later boots still went to them, and deletes of their servers hung.

The real managers of API, conductor and scheduler, with a clock that the test moves. Hosts answer only while they live.
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import falcon.testing
import pytest

from minova.api.app import make_app
from minova.db.engine import Database
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.hosts.liveness import MASS_SILENCE_GRACE
from minova.scheduler.manager import SchedulerManager
from tests.functional.api.conftest import Cloud
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness

HOSTS = tuple(f"h{number:02}" for number in range(12))
DOWN_TIME = 60.0
BEATS_EVERY = 10.0


class SilencedCloud(ConductorHarness):
    """`silent` hosts neither beat nor do what they are asked."""

    def __init__(self, folder: Path) -> None:
        url = f"sqlite:///{folder}/minova.sqlite"
        self.silent: set[str] = set()
        self._cloud = Cloud(folder, url=url)
        super().__init__(url, hosts=HOSTS)
        self._readonly = Database(url, readonly=True, clock=lambda: self.now, wall=lambda: self.now)
        manager = SchedulerManager(self.conf(), self.db, None, host="s", clock=lambda: self.now)
        self.scheduler = manager  # type: ignore[assignment]
        self.conductor = self.start("two")
        self._cloud.app = make_app(self._cloud.conf, self._readonly, self.conductor, self._cloud.consoles)
        self._cloud.client = falcon.testing.TestClient(self._cloud.app, headers={"Host": "localhost"})
        self._flavor = self._cloud.make_flavor()["id"]
        self._image = self._cloud.make_image()["id"]
        self.pass_time(2 * BEATS_EVERY)

    @staticmethod
    def node(name: str, **changes: Any) -> ComputeNode:
        room = {"free_ram_mb": 3072, "free_disk_gb": 18, "disk_available_least": 18}
        return ConductorHarness.node(name, **room, **changes)

    def close(self) -> None:
        self._cloud.close()
        self._readonly.close()
        super().close()

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now = min(self.now + BEATS_EVERY, until)
            for host in sorted(set(HOSTS) - self.silent):
                self.conductor.heartbeat(CTX, host=host, binary="minova-compute")
            self.tick(self.conductor)
            self.work()

    def work(self) -> None:
        """Hosts that live do what they were asked."""
        self.settle()
        for name in sorted(set(HOSTS) - self.silent):
            host = self.hosts[name]
            for build in host.builds:
                self.build(name, build.instance.uuid, build.attempt)
            for uuid in host.terminated:
                self.conductor.instance_deleted(CTX, instance_uuid=uuid, host=name)
            host.builds, host.terminated = [], []
        self.settle()

    def boot(self, count: int) -> list[str]:
        body = {"name": "vm", "flavorRef": self._flavor, "imageRef": self._image}
        server = body | {"min_count": count, "return_reservation_id": True}
        status, created = self._cloud.ask("POST", "/v2.1/servers", {"server": server})
        assert status == 202, created
        self.work()
        listed = self._cloud.get(f"/v2.1/servers?reservation_id={created['reservation_id']}")
        return [server["id"] for server in listed["servers"]]

    def shown(self, uuid: str) -> dict[str, Any] | None:
        status, answer = self._cloud.ask("GET", f"/v2.1/servers/{uuid}")
        return answer["server"] if status == 200 else None

    def host_of(self, uuid: str) -> str:
        server = self.shown(uuid)
        assert server is not None
        assert server["status"] == "ACTIVE", server.get("fault")
        return str(server["OS-EXT-SRV-ATTR:host"])

    def ask_delete(self, uuid: str) -> None:
        status, answer = self._cloud.ask("DELETE", f"/v2.1/servers/{uuid}")
        assert status == 204, answer
        self.work()

    def in_doubt(self) -> set[str]:
        own = {"X-Minova-Fields": "all"}
        services = self._cloud.get("/v2.1/os-services?binary=minova-compute", headers=own)["services"]
        return {each["host"] for each in services if each["in_doubt"]}

    def up(self) -> set[str]:
        services = self._cloud.get("/v2.1/os-services?binary=minova-compute")["services"]
        return {each["host"] for each in services if each["state"] == "up"}


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[SilencedCloud]:
    silenced_cloud = SilencedCloud(tmp_path)
    yield silenced_cloud
    silenced_cloud.close()


def one_on(cloud: SilencedCloud, hosts: Collection[str]) -> str:
    """An active server on one of these hosts."""
    for _ in range(4):
        for uuid in cloud.boot(4):
            if cloud.host_of(uuid) in hosts:
                return uuid
    raise AssertionError(f"no server came to any of {sorted(hosts)}")


def test_others_that_are_heard_end_the_doubt_at_once(cloud: SilencedCloud) -> None:
    living, dead = {"h10", "h11"}, set(HOSTS[:10])
    there = one_on(cloud, dead)
    cloud.silent |= dead
    cloud.pass_time(DOWN_TIME + 2 * BEATS_EVERY)
    assert (cloud.up(), cloud.in_doubt()) == (living, set())
    server_uuids = cloud.boot(6)
    assert {cloud.host_of(uuid) for uuid in server_uuids} <= living
    cloud.ask_delete(there)
    assert cloud.shown(there) is None
    assert all(cloud.hosts[host].builds == [] for host in dead)


def test_after_the_grace_period_no_boot_goes_to_dead_hosts_and_deletes_end(cloud: SilencedCloud) -> None:
    there, later = one_on(cloud, HOSTS), one_on(cloud, HOSTS)
    cloud.silent |= set(HOSTS)
    cloud.pass_time(DOWN_TIME + 2 * BEATS_EVERY)
    assert (cloud.up(), cloud.in_doubt()) == (set(HOSTS), set(HOSTS)), "messages may be at fault"
    cloud.ask_delete(there)
    shown = cloud.shown(there)
    assert shown is not None
    assert shown["OS-EXT-STS:task_state"] == "deleting"

    # Another boot is asked for while all are in doubt: it waits for its host, and ends with the reason.
    (doubtful,) = cloud.boot(1)
    cloud.pass_time(DOWN_TIME * MASS_SILENCE_GRACE)
    assert (cloud.up(), cloud.in_doubt()) == (set(), set())
    assert cloud.shown(there) is None, "the delete that waited has ended"
    cloud.ask_delete(later)
    assert cloud.shown(later) is None, "and a new one does not even begin to wait"
    for host in cloud.hosts.values():
        host.builds.clear()
    (new_server,) = cloud.boot(1)
    cloud.pass_time(DOWN_TIME)
    for uuid in (doubtful, new_server):
        shown = cloud.shown(uuid)
        assert shown is not None
        assert shown["status"] == "ERROR"
        assert shown["fault"]["message"], shown
    assert all(host.builds == [] for host in cloud.hosts.values())

    cloud.silent.remove("h03")
    cloud.pass_time(2 * BEATS_EVERY)
    assert (cloud.up(), cloud.in_doubt()) == ({"h03"}, set())
    assert [cloud.host_of(uuid) for uuid in cloud.boot(2)] == ["h03", "h03"]
