"""A cloud as operators run it: the executables as processes of their own, each with its own configuration file."""

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import urllib3

from tests import limits
from tests.integration import preloaded
from tests.integration.released import Release
from tests.servers.private_server import free_ports
from tests.waiting import wait_for

BIN = Path(sys.executable).parent
_LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def _die_with_the_tests() -> None:
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Executable:
    """One service. Its output goes to a log file, which a failed wait shows the end of.

    `environment` has variables for it, such as those of a SteppedClock. `release` None: it is of the code under test.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        options: dict[str, dict[str, Any]],
        environment: Mapping[str, str] | None = None,
        release: Release | None = None,
    ) -> None:
        self.name = name
        self.environment = {**(environment or {}), **(release.environment if release is not None else {})}
        self.release = release
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.log_file = folder / f"{name}.log"
        self.conf_file = folder / f"{name}.conf"
        defaults: dict[str, dict[str, Any]] = {"DEFAULT": {"debug": "true"}, "quota": dict(limits.UNLIMITED)}
        groups = (defaults | options).items()
        self.conf_file.write_text(
            "".join(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in values.items()) for group, values in groups)
        )
        # It has passwords.
        self.conf_file.chmod(0o600)
        self._process: subprocess.Popen[bytes] | preloaded.Process | None = None
        # Where the log of this process begins: that of an earlier one of this name is before.
        self._log_start = 0
        # Makes of its command the one that starts it with limits.
        self.limit: Callable[[list[str]], list[str]] | None = None

    def start(self) -> None:
        with self.log_file.open("ab") as log:
            self._log_start = log.tell()
            executable = [BIN / self.name] if self.release is None else self.release.command(self.name)
            command = [*map(str, executable), "--config-file", str(self.conf_file)]
            if self.limit is None and not self.environment:
                self._process = preloaded.Process(command, log, log)
                return
            self._process = subprocess.Popen(
                command if self.limit is None else self.limit(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(os.environ) | self.environment,
                preexec_fn=_die_with_the_tests,  # noqa: PLW1509  - this process starts no threads that hold locks here
            )

    def manage(self, *words: str) -> str:
        """minova-manage of the same release, with this one's configuration."""
        name = "minova-manage"
        command = [BIN / name] if self.release is None else self.release.command(name)
        return _run([*command, "--config-file", str(self.conf_file), *words], environment=self.environment)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    @property
    def host(self) -> str | None:
        """As its configuration names it now."""
        named = re.search(r"^host = (.+)$", self.conf_file.read_text(), re.MULTILINE)
        return named[1] if named is not None else None

    @property
    def listens(self) -> bool:
        """Whether it takes messages: a service that was stopped counts as up for a while, and again before it listens."""
        with self.log_file.open(errors="replace") as log:
            log.seek(self._log_start)
            return f"{self.name} started" in log.read()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self, timeout: float = 60) -> int:
        assert self._process is not None
        return self._process.wait(timeout)

    def kill(self) -> None:
        """As the kernel does when memory runs out: no clean-up."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(10)

    def stop(self) -> int:
        """Ask it to stop; its exit code."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.terminate()
        try:
            return self._process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} does not stop:\n{self.log[-4000:]}") from None


class Deployment:
    """A controller and computes that share nothing with it but the broker and the API's URL."""

    def __init__(self, folder: Path, transport_url: str, database_url: str, **controller: dict[str, Any]) -> None:
        self.folder = folder
        self.transport_url = transport_url
        (self.port,) = free_ports(1)
        api = {"osapi_compute_listen_port": self.port, **controller.pop("api", {})}
        self.url = f"{'https' if 'ssl_cert_file' in api else 'http'}://127.0.0.1:{self.port}"
        # Of the command line: MINOVA_* variables.
        self.environment: dict[str, str] = {}
        self._shared: dict[str, dict[str, Any]] = {"oslo_messaging_rabbit": controller.pop("oslo_messaging_rabbit", {})}
        options = self._options(
            "controller",
            {
                "database": {"connection": database_url},
                "api": api,
                **controller,
            },
        )
        self.services = {
            name: Executable(f"minova-{name}", folder / "controller", options)
            for name in ("conductor", "scheduler", "api")
        }
        self.conf_file = self.services["conductor"].conf_file

    def _options(self, host: str, groups: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        default = {
            "debug": "true",
            "host": host,
            "state_path": self.folder / host / "state",
            "transport_url": self.transport_url,
            "report_interval": 1,
            "service_down_time": 8,
            "update_resources_interval": 5,
        }
        merged = {"DEFAULT": default, **self._shared}
        for group, values in groups.items():
            merged[group] = {**merged.get(group, {}), **values}
        return merged

    def compute(self, host: str, **groups: dict[str, Any]) -> Executable:
        """Add a compute: no database in its configuration, a state folder of its own."""
        glance = {"endpoint_override": self.url, **groups.pop("glance", {})}
        groups = {"glance": glance, "conductor": {}, **groups}
        self.services[host] = Executable("minova-compute", self.folder / host, self._options(host, groups))
        return self.services[host]

    def manage(self, *words: str) -> str:
        done = preloaded.run(["minova-manage", "--config-file", self.conf_file, *words])
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def cli(self, *words: str, check: bool = True) -> str:
        """What `minova ...` prints; with check=False standard error too, whatever the exit code."""
        done = preloaded.run(["minova", "--url", self.url, *words], dict(os.environ) | self.environment)
        assert done.returncode == 0 or not check, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout if check else done.stdout + done.stderr

    def json(self, *words: str) -> Any:
        return json.loads(self.cli(*words, "-f", "json"))

    def start(self) -> None:
        for executable in self.services.values():
            executable.start()

    def wait_up(self, *hosts: str, timeout: float = 60) -> None:
        """Until the computes named, or all, and the controller's services are up."""
        compute_hosts = set(hosts or self.services) - {"api", "conductor", "scheduler"}
        hosts_up = compute_hosts | {"controller"}
        self._wait_for_rows("services", lambda row: row["state"] == "up" and row["host"], hosts_up, timeout)
        wait_for("the API", lambda: "Binary" in self.cli("service", "list", check=False), timeout)

        def up() -> bool:
            hosts = {row["Host"] for row in self.json("service", "list") if row["State"] == "up"}
            return hosts_up <= hosts

        wait_for(f"{compute_hosts} up", up, timeout)
        for executable in self.services.values():
            if executable.release is None and executable.is_running and executable.host in compute_hosts:
                wait_for(f"{executable.host} listens", lambda one=executable: one.listens, timeout)  # type: ignore[misc]

    def _wait_for_rows(
        self, kind: str, value: Callable[[dict[str, Any]], Any], wanted: Collection[Any], timeout: float
    ) -> None:
        """Until the values of the API's rows have all that is wanted, as a command shows afterwards: each command takes 0.3 s of
        CPU time. An API that asks for a password or has a certificate is left to the commands.
        """
        if self.environment or self.url.startswith("https"):
            return
        path = {"services": "/v2.1/os-services", "servers": "/v2.1/servers/detail"}[kind]

        def has_all() -> bool:
            try:
                answer = urllib3.request("GET", self.url + path, retries=False, timeout=30)
            except urllib3.exceptions.HTTPError:
                return False
            return answer.status == 200 and set(wanted) <= {value(row) for row in answer.json()[kind]}

        wait_for(f"{wanted} of {path}", has_all, timeout)

    def server(self, name: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.json("server", "show", name)
        return shown

    def wait_status(self, name: str, *statuses: str, timeout: float = 90) -> dict[str, Any]:
        """The server as shown once its status is one of these."""
        try:
            self._wait_for_rows(
                "servers", lambda row: row["status"] in statuses and name in (row["name"], row["id"]), {True}, timeout
            )
            return wait_for(
                f"{name} {statuses}",
                lambda: next((s for s in [self.server(name)] if s["status"] in statuses), {}),
                timeout,
            )
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.server(name)}\n{self.logs()}") from None

    def logs(self, last: int = 6000) -> str:
        return "\n".join(f"--- {name}\n{service.log[-last:]}" for name, service in self.services.items())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for executable in reversed(self.services.values()):
            executable.kill()


def _run(command: list[Any], *, environment: dict[str, str]) -> str:
    environment = dict(os.environ) | environment
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=180, stdin=subprocess.DEVNULL, env=environment
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
