"""Stories of servers that move, told through the real API: who asks for what, in which order and after which time, comes from a seed.

Requests overlap: the next one comes while the work of others goes on. Hosts lose their power and return, also in the middle of moves.
In every second story an older backup of the database is restored once or more, and an operator brings it together with the hosts.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import falcon.testing
from sqlalchemy import ColumnElement, select, true
from sqlalchemy.orm import Session

from minova.api.app import make_app
from minova.conductor.tasks.history import CONFIRM
from minova.contracts.compute import ComputeApi
from minova.db import quotas
from minova.db.models import Instance, Migration, Service, Task
from minova.objects.servers.states import PowerState
from tests.faults.cloud import Cloud
from tests.faults.mover import PROMPT
from tests.faults.restores import adopt_newer, have_reported, in_transit, recover, remove_given_up, remove_held_copies
from tests.faults.storms import DOUBLE
from tests.faults.test_crash_table import unfinished
from tests.faults.test_evacuation import power_back, power_cut
from tests.faults.world import LATE, Faults

VERSION = "2.95"
NAME = "s"
FLAVORS = {"small": (1, 256), "large": (2, 512)}
HOSTS = 3
# Acts of a story, and seconds from one to the next.
ACTS, PAUSES = 12, (0.1, 12.0)
# Seconds within which each host reports its guests.
REPORTS = 70.0
# Seconds until all work has ended that nothing disturbs any more.
QUIET = 400.0
# The API accepts it, or refuses it for a reason that the caller can see. 503: its request was delivered twice and is executed already.
ANSWERS = {200, 201, 202, 204, 400, 404, 409, 503}
Domains: TypeAlias = dict[str, dict[str, PowerState]]


class Story:
    """`told`: what was asked for and answered, for the message of a failure. `miscounted`: hosts whose guests were not counted right."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.cloud = Cloud(seed, folder, hosts=HOSTS, fake_vcpus=8, fake_memory_mb=4096, fake_local_gb=50, **PROMPT)
        self.world = self.cloud.world
        self.world.faults = Faults(others_first=0.0)
        self.world.down_for = (0.5, 20.0)
        for driver in self.cloud.drivers.values():
            driver.between_rounds = lambda: self.world.run(1.0)
        self.told: list[str] = []
        self.miscounted: list[str] = []
        # Guests that ended when the database went back in time.
        self.died: list[str] = []
        self._rules = RULES + BACK_IN_TIME if seed % 2 else RULES
        self._has_backup = False
        self.counts: Counter[str] = Counter()
        # Hosts without power, and those that are back and not yet in service.
        self.down: list[str] = []
        self.returned: list[str] = []
        conf = self.cloud.conf("api")
        app = make_app(
            conf, self.cloud.db, self.cloud.conductor, lambda host: self.cloud._client(ComputeApi, None, host)
        )
        headers = {"Host": "localhost", "OpenStack-API-Version": f"compute {VERSION}"}
        self._client = falcon.testing.TestClient(app, headers=headers)
        self.world.run(15.0)
        for name, (vcpus, memory) in FLAVORS.items():
            flavor = {"name": name, "id": name, "vcpus": vcpus, "ram": memory, "disk": 1}
            assert self.ask("POST", "/v2.1/flavors", {"flavor": flavor})[0] == 200
        image = {"name": "i", "disk_format": "raw", "container_format": "bare"}
        self._image = self.ask("POST", "/v2/images", image)[1]["id"]
        result = self._client.simulate_put(
            f"/v2/images/{self._image}/file", body=b"\1" * 512, headers={"Content-Type": "application/octet-stream"}
        )
        assert result.status_code == 204, result.text
        # Each message of a story may come twice.
        self.world.faults = Faults(others_first=0.0, double=DOUBLE)

    def close(self) -> None:
        self.world.close()

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        result = self._client.simulate_request(method, path, json=body)
        assert result.status_code in ANSWERS, (method, path, body, result.text)
        return result.status_code, result.json if result.content else None

    # -- what happens ----------------------------------------------------------------------------------------------

    def tell(self) -> None:
        random = self.world.random
        for _ in range(random.randint(2, 4)):
            self.boot()
        self.world.run(5.0)
        for _ in range(ACTS):
            random.choice(self._rules)(self)
            self.world.run(random.uniform(*PAUSES))
        self.settle()

    def boot(self) -> None:
        name = self.world.random.choice(sorted(FLAVORS))
        server = {"name": NAME, "flavorRef": name, "imageRef": self._image, "networks": "none"}
        status, answer = self.ask("POST", "/v2.1/servers", {"server": server})
        self._note("boot", name, status)
        if status == 202:
            self.cloud.acknowledged.add(answer["server"]["id"])
            self.cloud.asked[NAME] = len(self.cloud.acknowledged)

    def act(self, action: str, body: Any = None, server: str | None = None) -> None:
        """For the given server, or else for any in a state in which it may be, mostly."""
        chosen = server or self._any(action)
        if chosen is not None:
            status, answer = self.ask("POST", f"/v2.1/servers/{chosen}/action", {action: body})
            self._note(action, chosen, status, answer)

    def resize(self) -> None:
        self.act("resize", {"flavorRef": self.world.random.choice(sorted(FLAVORS))})

    def migrate(self) -> None:
        chosen = self.world.random.choice([None, None, *self.cloud.hosts])
        self.act("migrate", None if chosen is None else {"host": chosen})

    def migrate_live(self) -> None:
        chosen = self.world.random.choice([None, None, *self.cloud.hosts])
        self.act("os-migrateLive", {"host": chosen, "block_migration": "auto"})

    def evacuate(self) -> None:
        """A server of a host without power; without such a host one loses its power."""
        if not self.down:
            self.host_down()
        self.act("evacuate", {})

    def abort(self) -> None:
        with self.cloud.db.read() as session:
            query = select(Migration.instance_uuid, Migration.id).order_by(Migration.id.desc()).limit(1)
            row = session.execute(query).first()
        if row is not None:
            status, _ = self.ask("DELETE", f"/v2.1/servers/{row[0]}/migrations/{row[1]}")
            self._note("abort", row[0], status)

    def delete(self) -> None:
        server = self._any()
        if server is not None:
            self._delete(server)

    def _delete(self, server: str) -> None:
        self.cloud.delete_asked.add(server)
        status, _ = self.ask("DELETE", f"/v2.1/servers/{server}")
        self._note("delete", server, status)

    def host_down(self) -> None:
        """At most one host at a time has no power: two others are needed for moves."""
        if self.down or self.returned:
            return
        with self.cloud.db.read() as session:
            used = session.scalars(select(Instance.host).where(Instance.host.is_not(None)).order_by(Instance.id)).all()
        host = self.world.random.choice([*filter(None, used)] or self.cloud.hosts)
        power_cut(self.cloud, host)
        self.down.append(host)
        self._note("down", host, self._force(host, down=True))

    def host_up(self) -> None:
        while self.down:
            host = self.down.pop()
            power_back(self.cloud, host)
            self.returned.append(host)
            self._note("up", host, 0)
        for host in [*self.returned]:
            status = self._force(host, down=False)
            self._note("in service", host, status)
            if status == 200:
                self.returned.remove(host)

    def back_up(self) -> None:
        self.cloud.back_up()
        self._has_backup = True
        self._note("back up", "", 0)

    def go_back(self) -> None:
        """The last backup is restored, some acts old. All hosts have power, so that they report, and none is forced down by the
        database of then without being so in reality.
        """
        if not self._has_backup:
            self.back_up()
            return
        self.host_up()
        before = self.cloud.running() - in_transit(self.cloud)
        self.cloud.restore()
        self._note("restore", "", 0)
        self.world.run(CONFIRM + 20.0)
        until = self.world.now + QUIET
        while self.cloud.safe_since() is not None and not have_reported(self.cloud) and self.world.now < until:
            self.world.run(5.0)
        self._look_for_dead(before)
        if self.cloud.safe_since() is not None:
            recover(self.cloud)
        self._note("recovered", "", 0)
        self.world.run(30.0)
        self._look_for_dead(before)
        self.returned = [*self.cloud.hosts]
        with self.cloud.db.read() as session:
            instance_uuids = set(session.scalars(select(Instance.uuid)))
            alive = session.scalars(select(Instance.uuid).where(Instance.deleted_at.is_(None))).all()
        # Not built yet, or deleted: users ask for it again.
        self.cloud.acknowledged &= instance_uuids
        for server in sorted({*alive} & self.cloud.delete_asked):
            self._delete(server)

    def _look_for_dead(self, before: set[tuple[str, str]]) -> None:
        dead = before - self.cloud.running() - in_transit(self.cloud)
        self.died += [
            f"{uuid} ran on {host} when the database went back in time, and does not any more" for host, uuid in dead
        ]

    def _force(self, host: str, *, down: bool) -> int:
        with self.cloud.db.read() as session:
            uuid = session.scalar(select(Service.uuid).where(Service.host == host))
        return self.ask("PUT", f"/v2.1/os-services/{uuid}", {"forced_down": down})[0]

    def _any(self, action: str = "") -> str | None:
        """A server that may be asked for this, four times out of five; else any."""
        with self.cloud.db.read() as session:
            query = select(Instance.uuid).where(Instance.deleted_at.is_(None)).order_by(Instance.id)
            some = session.scalars(query.where(LIKELY[action](self) if action in LIKELY else true())).all()
            candidates = some if some and self.world.random.random() < 0.8 else session.scalars(query).all()
        return self.world.random.choice(candidates) if candidates else None

    def _note(self, what: str, which: str, status: int, answer: Any = None) -> None:
        self.counts[f"{what} {status // 100}xx"] += 1
        why = next(iter(answer.values())).get("message", "") if isinstance(answer, dict) and status >= 400 else ""
        self.told.append(f"{self.world.now - 1_700_000_000:.0f} {what} {which} {status} {why}".rstrip())

    # -- what must be true -----------------------------------------------------------------------------------------

    def settle(self) -> None:
        """All hosts are in service and all work has ended."""
        until = self.world.now + QUIET
        while self.world.now < until:
            self.host_up()
            self.world.run(5.0)
            if not self.returned:
                remove_held_copies(self.cloud)
            if not self.returned and not self._is_busy():
                break
        # A second delivery of an old message may still come; the next audit corrects what it has changed.
        self.world.run(LATE)
        if self.counts["restore 0xx"]:
            # Hosts report their guests once a minute, and are told with the next report what to remove.
            self.world.run(REPORTS)
            adopt_newer(self.cloud)
            self.world.run(REPORTS)
            if remove_given_up(self.cloud):
                self.world.run(REPORTS)
        # Right without an audit. What a given-up move has claimed is counted until the next one.
        self.miscounted = [violation for violation in self.cloud.violations() if "running_vms" in violation]
        self.audit()

    def _is_busy(self) -> bool:
        with self.cloud.db.read() as session:
            return (
                session.scalar(select(Task.id)) is not None
                or session.scalar(select(Instance.id).where(Instance.task_state.is_not(None))) is not None
                or session.scalar(select(Migration.id).where(Migration.cleanup_host.is_not(None))) is not None
            )

    def audit(self) -> None:
        for host in self.cloud.hosts:
            process = self.world.processes[host]
            self.world.later(0.0, process, process.manager.update_available_resource)
        # The host reports a guest in another state right after its audit, in a message of its own.
        self.world.run(5.0)

    def decide(self) -> None:
        """Each server that waits for it is confirmed or reverted, in turn."""
        with self.cloud.db.read() as session:
            waiting = session.scalars(select(Instance.uuid).where(Instance.vm_state == "resized")).all()
        for number, server in enumerate(waiting):
            action = "confirmResize" if number % 2 else "revertResize"
            status, answer = self.ask("POST", f"/v2.1/servers/{server}/action", {action: None})
            self._note(action, server, status, answer)
        self.settle()

    def delete_all(self) -> None:
        while (server := self._any()) is not None:
            self._delete(server)
            self.world.run(10.0)
        self.settle()

    def violations(self) -> list[str]:
        with self.cloud.db.read() as session:
            has = quotas.usages_of(session, self._project(session))
            counted_usage = quotas.counted(session, self._project(session), has)
        wrong_usages = [f"usage {has}, not {counted_usage}"] if has != counted_usage else []
        return [
            *self.died,
            *self.miscounted,
            *self.cloud.violations(),
            *unfinished(self.cloud),
            *self._wrong_domains(),
            *wrong_usages,
        ]

    def _project(self, session: Session) -> str:
        (project,) = quotas.projects(session)
        return project

    def _wrong_domains(self) -> list[str]:
        expected_domains, actual_domains = self._wanted_domains(), self.domains()
        return [
            f"{host}: domains {actual_domains[host]}, not {expected_domains[host]}"
            for host in actual_domains
            if actual_domains[host] != expected_domains[host]
        ]

    def domains(self) -> Domains:
        return {
            host: {domain.uuid: PowerState(domain.power_state) for domain in driver.domains()}
            for host, driver in self.cloud.drivers.items()
        }

    def _wanted_domains(self) -> Domains:
        """Of a server that waits for a confirmation its source keeps a copy that is off."""
        expected_domains: Domains = {host: {} for host in self.cloud.hosts}
        with self.cloud.db.read() as session:
            finished = select(Migration).where(Migration.status == "finished")
            sources = {move.instance_uuid: move.source_compute for move in session.scalars(finished)}
            for row in session.scalars(
                select(Instance).where(Instance.deleted_at.is_(None), Instance.host.is_not(None))
            ):
                if row.vm_state == "resized":
                    expected_domains[sources[row.uuid]][row.uuid] = PowerState.SHUTDOWN
                expected_domains[str(row.host)][row.uuid] = PowerState(row.power_state)
        return expected_domains


def _in_state(*vm_states: str) -> Callable[[Story], ColumnElement[bool]]:
    return lambda story: Instance.vm_state.in_(vm_states) & Instance.task_state.is_(None)


# Which servers may be asked for an action.
LIKELY: dict[str, Callable[[Story], ColumnElement[bool]]] = {
    "resize": _in_state("active", "stopped"),
    "migrate": _in_state("active", "stopped"),
    "os-migrateLive": _in_state("active"),
    "confirmResize": _in_state("resized"),
    "revertResize": _in_state("resized"),
    "os-stop": _in_state("active"),
    "os-start": _in_state("stopped"),
    "evacuate": lambda story: Instance.host.in_(story.down),
}


# Of every second story.
BACK_IN_TIME: tuple[Callable[[Story], None], ...] = (*(Story.back_up,) * 3, *(Story.go_back,) * 4)


def _act(action: str) -> Callable[[Story], None]:
    return lambda story: story.act(action)


# The more often a rule stands here, the more often it is drawn.
RULES: tuple[Callable[[Story], None], ...] = (
    Story.boot,
    *(Story.resize, Story.migrate, Story.migrate_live) * 4,
    *(_act("confirmResize"), _act("revertResize")) * 3,
    *(Story.evacuate,) * 3,
    *(Story.host_up,) * 2,
    Story.host_down,
    Story.abort,
    Story.delete,
    _act("os-stop"),
    _act("os-start"),
)
