"""The processes: two APIs, three conductors, two schedulers, eight computes, a broker and a database, each with a clock of its own."""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from minova.objects.servers.states import PowerState
from tests.integration.deployment import BIN, Executable
from tests.integration.released import Release
from tests.servers.postgresql import PostgreSQL, Replica
from tests.servers.private_server import free_ports
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.stepped_clock import SteppedClock
from tests.soak.journal import Guest
from tests.soak.plan import APIS, COMPUTES, CONDUCTORS, SCHEDULERS, SERVICES
from tests.waiting import wait_for

BINARIES = {
    "api": "minova-api",
    "conductor": "minova-conductor",
    "scheduler": "minova-scheduler",
    "compute": "minova-compute",
}
# They use the database.
CONTROLLERS = (*CONDUCTORS, *SCHEDULERS, *APIS)
# Of one host. Four CPUs are for pinned guests.
HOST = {"fake_vcpus": 16, "fake_memory_mb": 16384, "fake_local_gb": 200}
STOP_WITHIN = 75.0
# What services say when they work, and within how many seconds, with broker and database away for a part of them.
STARTED, STARTED_WITHIN = (" started", " listens on "), 180.0
RENAMED_WITHIN = 180.0


class Cloud:
    """`folder` keeps configuration, logs and the fake hypervisors' books. Services keep their names; hosts may get others.

    `release`: what those named in `old` begin with, and others may go back to. The tables are always upgraded.
    """

    def __init__(self, folder: Path, release: Release | None = None, old: Collection[str] = ()) -> None:
        self.folder = folder
        self._release = release
        self.old = set(old)
        self._stack = contextlib.ExitStack()
        self.clocks = {name: SteppedClock(folder / name / "clock") for name in (*SERVICES, "database")}
        self.hosts = {name: name for name in SERVICES}
        self.services: dict[str, Executable] = {}
        self._numbers = itertools.count(1)
        self.locks = {name: threading.Lock() for name in (*SERVICES, "database", "broker")}
        # Processes that must run now: any other end of theirs is a fault of ours.
        self.running: set[str] = set()
        # Characters in each log before the process that runs wrote to it.
        self._log_before: dict[str, int] = {}
        self.unexpected: list[str] = []
        # A process that was started by a thread dies with it (PR_SET_PDEATHSIG), so one thread that stays starts all.
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="starter")

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        self.database: PostgreSQL = self._stack.enter_context(
            PostgreSQL(environment=self.clocks["database"].environment)
        )
        self.broker = self._stack.enter_context(RabbitMQ())
        self.database_url, self._transport_url = self.database.fresh_url(), self.broker.fresh_url()
        self._ports = dict(zip(APIS, free_ports(len(APIS)), strict=True))
        self.urls = [f"http://127.0.0.1:{port}" for port in self._ports.values()]
        for name in SERVICES:
            self.configure(name)
        if self._release is not None:
            # Without tables that it made itself, no service of the last release starts.
            self.manage("db", "upgrade", release=self._release)
        self.manage("db", "upgrade")
        for name in SERVICES:
            self.start(name)

    def close(self) -> None:
        self.running.clear()
        for service in self.services.values():
            service.kill()
        self._starter.shutdown()
        self._stack.close()

    def url_of(self, name: str) -> str | None:
        """Returns the URL of this API; None: the service is no API."""
        return dict(zip(APIS, self.urls, strict=True)).get(name)

    # -- services --------------------------------------------------------------------------------------------------

    def configure(self, name: str, *, transport_url: str = "", database_url: str = "") -> None:
        """Write the configuration of a service, with the name that its host has now, for the release that it is to run. The URLs are
        those of this cloud, unless they are given.
        """
        kind = name.partition("-")[0]
        options: dict[str, dict[str, Any]] = {
            "DEFAULT": {
                "host": self.hosts[name],
                "state_path": self.folder / name / "state",
                "transport_url": transport_url or self._transport_url,
                "report_interval": 1,
                "service_down_time": 8,
                "update_resources_interval": 5,
                "running_deleted_instance_poll_interval": 10,
                # Users forget some of their moves. A host whose power failed starts what its rows name.
                "resize_confirm_window": 15,
                "resume_guests_state_on_host_boot": "true",
            },
            "glance": {"endpoint_override": self.urls[0]},
        }
        if kind == "compute":
            options["DEFAULT"] |= {"compute_driver": "fake", "fake_persistent": "true", **HOST}
            options["compute"] = {"cpu_dedicated_set": "0-3", "cpu_shared_set": "4-15"}
        else:
            options["database"] = {"connection": database_url or self.database_url}
        if kind == "api":
            options["api"] = {"osapi_compute_listen_port": self._ports[name]}
        before = self.services.get(name)
        release = self._release if name in self.old else None
        self.services[name] = Executable(
            BINARIES[kind], self.folder / name, options, self.clocks[name].environment, release
        )
        if before is not None:
            assert not before.is_running, f"{name} runs while its configuration is written"

    def start(self, name: str) -> None:
        self._log_before[name] = len(self.services[name].log)
        self._starter.submit(self.services[name].start).result()
        self.running.add(name)

    def start_beside(self, service: Executable) -> None:
        """Of a service that is none of this cloud."""
        self._starter.submit(service.start).result()

    def kill(self, name: str) -> None:
        self._note_dead(name)
        self.running.discard(name)
        self.services[name].kill()

    def mislead(self, name: str, words: str, **urls: str) -> None:
        """Start a service, which was killed, with URLs of another cloud, and wait until it has said so by these words. It may end."""
        self.configure(name, **urls)
        self._log_before[name] = len(self.services[name].log)
        self._starter.submit(self.services[name].start).result()
        wait_for(f"{name} says that it is at another cloud", lambda: words in self._written(name), STARTED_WITHIN)

    def lead_back(self, name: str) -> None:
        """Start it with the URLs of this cloud."""
        self.services[name].kill()
        self.configure(name)
        self.start(name)

    def terminate(self, name: str) -> None:
        """Ask it to stop, and wait until it has."""
        self._note_dead(name)
        self.running.discard(name)
        service = self.services[name]
        if not service.is_running:
            return
        service.signal(signal.SIGTERM)
        try:
            code = service.wait(STOP_WITHIN)
        except subprocess.TimeoutExpired:
            self.unexpected.append(f"{name} does not stop within {STOP_WITHIN:.0f} s of SIGTERM")
            service.kill()
        else:
            # 1: it was still starting; and before it has written anything it does not yet take signals.
            if code not in {0, 1} and (code != -signal.SIGTERM or self._written(name)):
                self.unexpected.append(f"{name} ended with {code} after SIGTERM")

    def rename(self, name: str) -> None:
        """Give the host of a stopped compute another name, as soon as that is allowed and the database answers."""
        old, new = self.hosts[name], f"{name}-{next(self._numbers)}"

        def renamed() -> bool:
            try:
                self.manage("host", "rename", old, new)
            except AssertionError as error:
                # An earlier try may have been committed though its answer was lost.
                if f"no minova-compute on host {old}" not in str(error):
                    return False
            return True

        wait_for(f"{old} is renamed", renamed, RENAMED_WITHIN)
        self.hosts[name] = new
        self.configure(name)

    def replace(self, name: str, *, old: bool) -> None:
        """Stop a service as an operator does, start that of the last release or of the new one, and wait until it works."""
        assert self._release is not None
        self.terminate(name)
        (self.old.add if old else self.old.discard)(name)
        self.configure(name)
        self.start(name)
        wait_for(f"{name} has started", lambda: self._has_started(name), STARTED_WITHIN)

    def conductors_are_new(self) -> bool:
        return self.old.isdisjoint(CONDUCTORS)

    def stop_for_a_while(self, name: str, seconds: float, wait: Callable[[float], object]) -> None:
        """SIGSTOP, and later SIGCONT."""
        service = self.services[name]
        if not service.is_running:
            return
        service.signal(signal.SIGSTOP)
        wait(seconds)
        service.signal(signal.SIGCONT)

    def _has_started(self, name: str) -> bool:
        """Whether the process that runs has said so. AssertionError: it ended."""
        service = self.services[name]
        assert service.is_running, f"{name} ended at its start:\n{service.log[-2000:]}"
        return any(word in self._written(name) for word in STARTED)

    def _written(self, name: str) -> str:
        """What the process that ran last has written to its log."""
        return self.services[name].log[self._log_before[name] :]

    def _note_dead(self, name: str) -> None:
        if name in self.running and not self.services[name].is_running:
            self.unexpected.append(f"{name} ended by itself")
            self.running.discard(name)

    def note_all_dead(self) -> None:
        """Find those that ended though no fault ended them, and start them again."""
        for name in sorted(self.running):
            with self.locks[name]:
                self._note_dead(name)
                if name not in self.running:
                    self.start(name)

    @contextlib.contextmanager
    def without_controllers(self) -> Iterator[None]:
        """All services that use the database are stopped inside."""
        with contextlib.ExitStack() as stack:
            for name in CONTROLLERS:
                stack.enter_context(self.locks[name])
            with ThreadPoolExecutor(len(CONTROLLERS)) as pool:
                list(pool.map(self.terminate, CONTROLLERS))
            try:
                yield
            finally:
                for name in CONTROLLERS:
                    self.start(name)

    def replicate(self) -> Replica:
        """A replica of the database. Its promotion gives it the address of the database."""
        folder = self.folder / f"replica-{next(self._numbers)}"
        return self._stack.enter_context(Replica(self.database, folder, self.clocks["database"].environment))

    # -- what is asked of it ---------------------------------------------------------------------------------------

    def manage(self, *words: str, release: Release | None = None) -> str:
        """What minova-manage of the new release, or of this one, prints. AssertionError: it failed."""
        conf = self.services[CONDUCTORS[0]].conf_file
        name = "minova-manage"
        done = subprocess.run(
            [*([BIN / name] if release is None else release.command(name)), "--config-file", str(conf), *words],
            env=dict(os.environ) | (release.environment if release is not None else {}),
            capture_output=True,
            text=True,
            timeout=180,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def cli(self, *words: str) -> str:
        done = subprocess.run(
            [BIN / "minova", "--url", self.urls[0], *words],
            capture_output=True,
            text=True,
            timeout=180,
            stdin=subprocess.DEVNULL,
        )
        return done.stdout + done.stderr

    def wait_up(self, timeout: float) -> None:
        """Until every service that beats is up."""
        service_hosts = {self.hosts[name] for name in (*CONDUCTORS, *SCHEDULERS, *COMPUTES)}

        def up() -> bool:
            try:
                rows = json.loads(self.cli("service", "list", "-f", "json"))
            except ValueError:
                return False
            return service_hosts <= {row["Host"] for row in rows if row["State"] == "up"}

        wait_for(f"{sorted(service_hosts)} up", up, timeout)

    def domains(self) -> dict[str, list[str]]:
        """The running domains of each host, by the UUIDs of their instances."""
        return {
            self.hosts[name]: [uuid for uuid, _, power_state in self._books(name) if power_state == PowerState.RUNNING]
            for name in COMPUTES
        }

    def books(self, compute: str) -> bytes:
        """What the hypervisor of this compute holds."""
        file = self._books_of(compute)
        return file.read_bytes() if file.exists() else b""

    def guests(self) -> dict[str, Guest]:
        """The guests that run, by the UUIDs of their instances."""
        return {
            uuid: Guest(compute=name, attempt=attempt)
            for name in COMPUTES
            for uuid, attempt, power_state in self._books(name)
            if power_state == PowerState.RUNNING
        }

    def stored_images(self) -> set[str]:
        """The ids of the images whose bytes the APIs hold."""
        return {path.name for name in APIS for path in (self.folder / name / "state" / "images").glob("*")}

    def fail_power(self, compute: str) -> None:
        """The guests of this compute, which was killed, are off."""
        file = self._books_of(compute)
        if file.exists():
            domains = json.loads(file.read_bytes())
            file.write_text(json.dumps([domain | {"power_state": PowerState.SHUTDOWN} for domain in domains]))

    def _books_of(self, compute: str) -> Path:
        return self.folder / compute / "state" / "instances" / "fake-domains.json"

    def _books(self, compute: str) -> list[tuple[str, int, int]]:
        """UUID, attempt and power state of each domain."""
        books = self._books_of(compute)
        domains = json.loads(books.read_bytes()) if books.exists() else []
        return [(domain["uuid"], domain["attempt"], domain["power_state"]) for domain in domains]
