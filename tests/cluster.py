"""A cloud in one process: the real services over a real bus, with computes whose fake drivers keep books."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from oslo_config import cfg

from minova import conf as configuration
from minova import service
from minova.cmd import api, compute, conductor, scheduler
from minova.cmd.startup import clients
from minova.context import RequestContext, service_context
from minova.contracts.conductor import ConductorApi
from minova.db.engine import Database
from minova.messaging.rpc import Rpc
from tests import limits
from tests.tables import make_tables

MEMORY = "kombu+memory://localhost/"
# oslo.messaging's own in-memory bus: for clouds of many hosts, which kombu's makes too busy with polling.
BOOK_BUS = "fake://"


def configure(folder: Path, *, files: Sequence[str] = (), **overrides: Any) -> cfg.ConfigOpts:
    """Options as a service reads them; `group__name=value` overrides. `files`: with options that are registered later."""
    folder.mkdir(parents=True, exist_ok=True)
    conf = configuration.load([], "test", files=files) if files else _defaults()
    conf.set_override("state_path", str(folder))
    conf.set_override("compute_driver", "fake")
    conf.set_override("osapi_compute_listen_port", 0, group="api")
    for name, limit in limits.UNLIMITED.items():
        conf.set_override(name, limit, group="quota")
    for name, value in overrides.items():
        group, _, option = name.rpartition("__")
        conf.set_override(option, value, group=group or None)
    return conf


def _defaults() -> cfg.ConfigOpts:
    """As `configuration.load` without files. It checks the value of each option, which takes most of its time."""
    conf = configuration.new()
    conf([], project="minova", prog="test", default_config_files=[])
    return conf


class Cluster:
    """`hosts` computes beside one conductor, `schedulers` schedulers and an API on a free port.

    `transport_url`: of all; or answers that of a service (`compute`) and its host, and then each has connections of its own.
    """

    def __init__(
        self,
        folder: Path,
        hosts: Sequence[str],
        *,
        transport_url: str | Callable[[str, str], str] = MEMORY,
        database_url: str | None = None,
        schedulers: int = 1,
        **overrides: Any,
    ) -> None:
        self.folder = folder
        self.hosts = tuple(hosts)
        self._overrides = dict(overrides)
        if database_url:
            self._overrides["database__connection"] = database_url
        self._transport_url = transport_url
        self._schedulers = schedulers
        self._stack = ExitStack()
        self._stopping = threading.Event()
        self._shared_rpc: Rpc | None = None
        self._rpcs: dict[tuple[str, str], Rpc] = {}
        self.computes: dict[str, Any] = {}
        self.confs_of_computes: dict[str, cfg.ConfigOpts] = {}

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stopping.set()
        self._stack.close()

    def _start(self) -> None:
        conf = configure(self.folder / "controller", host="controller", **self._overrides)
        make_tables(conf.database.connection)
        self.conductor: ConductorApi = clients.conductor(self.rpc("api", conf))
        self.db = Database(conf.database.connection)
        self._stack.callback(self.db.close)
        self._run(conductor.compose(conf, self.rpc("conductor", conf), self._stopping))
        for number in range(self._schedulers):
            own = configure(self.folder / "controller", host=f"scheduler{number}", **self._overrides)
            self._run(scheduler.compose(own, self.rpc("scheduler", own), self._stopping))
        self.api = api.compose(conf, self.rpc("api", conf), self._stopping)
        self._run(self.api)
        self.url = f"http://127.0.0.1:{self.api.port}"
        self._stack.callback(self._stop_computes)
        with ThreadPoolExecutor(8) as pool:
            try:
                list(pool.map(self.add_compute, self.hosts))
            except BaseException:
                # Computes that wait for a conductor would keep the pool from ending, and the run of the tests with it.
                self._stopping.set()
                raise

    def rpc(self, service_name: str, conf: cfg.ConfigOpts) -> Rpc:
        """The connections of a service: one for all, unless each has a URL of its own."""
        if not callable(self._transport_url):
            if self._shared_rpc is None:
                self._shared_rpc = self._opened(Rpc(conf, self._transport_url))
            return self._shared_rpc
        key = (service_name, conf.host)
        if key not in self._rpcs:
            self._rpcs[key] = self._opened(Rpc(conf, self._transport_url(*key)))
        return self._rpcs[key]

    def _opened(self, rpc: Rpc) -> Rpc:
        self._stack.callback(rpc.close)
        return rpc

    def add_compute(self, host: str, **own: Any) -> None:
        """`own`: overrides of this host alone."""
        overrides = {"glance__endpoint_override": self.url, **self._overrides, **own}
        conf = configure(self.folder / host, host=host, **overrides)
        running = compute.compose(conf, self.rpc("compute", conf), self._stopping)
        self.computes[host], self.confs_of_computes[host] = running, conf
        running.start()

    def driver(self, host: str) -> Any:
        """The fake driver of a compute."""
        return self.computes[host]._manager.collaborators.own_driver

    def _stop_computes(self) -> None:
        with ThreadPoolExecutor(50) as pool:
            list(pool.map(lambda running: running.stop(), self.computes.values()))

    def _run(self, running: service.Runnable) -> None:
        running.start()
        self._stack.callback(running.stop)


def user(project: str = "demo") -> RequestContext:
    """A user who is no administrator."""
    ctx = service_context()
    return RequestContext(request_id=ctx.request_id, user_id="alice", project_id=project)
