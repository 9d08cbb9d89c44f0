"""A whole cloud in one thread: the real handlers, a fake clock, and a bus that loses, doubles and delays by a seed.

Every message goes through the real Proxy and Endpoint, as JSON. At each message, and between any two pieces of work,
the world may let others go first, lose what is sent or answered, or kill whoever is at work: a killed process does
nothing any more, not even its clean-up, because its bus, database and hypervisor no longer take anything from it.
"""

import heapq
import itertools
import json
import logging
import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import msgspec
import oslo_messaging
from sqlalchemy import event
from sqlalchemy.orm import Session

from minova import errors, rpc
from minova.contracts.base import numbers
from minova.db.engine import Database

LOG = logging.getLogger(__name__)

LAST_RELEASE = json.loads((Path(__file__).parents[1] / "released" / "d8f8a1a.json").read_text())
STEPS = (-3600.0, 3600.0)  # seconds by which a wall clock steps
DEPTH = 3  # how many pieces of work may stand inside each other


class Killed(BaseException):
    """Not an Exception: nothing of ours may catch it."""


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """Chances, each asked for at every message."""

    lose: float = 0.0
    double: float = 0.0
    delay: float = 0.0
    kill: float = 0.0
    others_first: float = 0.3
    step: float = 0.0  # a wall clock, of the sender or of the database, steps by an hour


class Process:
    """One incarnation of one service. `boot` makes its manager; a restart makes a new Process."""

    def __init__(self, world: "World", name: str, contract: Any, boot: Callable[["Process"], Any]) -> None:
        self.world = world
        self.name = name
        self.contract = contract
        self.boot = boot
        self.alive = True
        self.step = 0.0
        self.manager: Any = None
        self.endpoint: rpc.Endpoint | None = None  # None until it listens

    def check(self) -> None:
        """Anything a process does to the world outside begins here."""
        if not self.alive:
            raise Killed(self.name)

    def wall(self) -> float:
        """The wall clock of its host, which may have stepped; `world.now` is the monotonic one of all."""
        return self.world.now + self.step

    def start(self) -> None:
        self.manager = self.boot(self)
        self.manager.init_host()
        self.manager.pre_start_hook()
        self.endpoint = rpc.Endpoint(self.manager, self.contract)
        self.manager.post_start_hook()
        for task in self.manager.periodic_tasks():
            self.world.later(0.0 if task.at_once else task.interval, self, self._periodic(task))

    def _periodic(self, task: Any) -> Callable[[], None]:
        def work() -> None:
            interval = task.interval
            try:
                interval = task.work() or interval
            except errors.MinovaError as error:
                LOG.debug("%s of %s: %s", task.name, self.name, error)
            self.world.later(interval * self.world.random.uniform(0.9, 1.0), self, work)

        return work


class Event:
    """Stands in for threading.Event in waits: others work meanwhile, and the clock moves."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def is_set(self) -> bool:
        return False

    def set(self) -> None:
        """Nobody stops gracefully here."""

    def wait(self, timeout: float | None = None) -> bool:
        self._process.check()
        self._process.world.run(timeout or 0.0)
        self._process.check()
        return False


class World:
    """Everything random comes from `random`, everything timely from `now`: the same seed gives the same story."""

    def __init__(self, seed: int, url: str) -> None:
        self.random = random.Random(seed)
        self.url = url
        self.now = 1_700_000_000.0
        self.database_step = 0.0  # of the database's wall clock
        self.faults = Faults()
        self.processes: dict[str, Process] = {}
        self.errors: list[str] = []
        # Names of processes that serve what the last release served, and what they have refused.
        self.last_release: set[str] = set()
        self.refused: list[str] = []
        self._queue: list[tuple[float, float, int, Process | None, Callable[[], None]]] = []
        self._number = itertools.count()
        self._stack: list[Process] = []
        self._databases: list[Database] = []
        # Names that minova draws belong to the story too.
        self._uuid4 = uuid.uuid4
        uuid.uuid4 = lambda: uuid.UUID(int=self.random.getrandbits(128), version=4)

    # -- processes -------------------------------------------------------------------------------------------------

    def start(self, name: str, contract: Any, boot: Callable[[Process], Any]) -> None:
        """Start it now; killed, it comes back by itself some time later."""
        process = Process(self, name, contract, boot)
        self.processes[name] = process
        self._work(process, process.start)

    def kill(self, process: Process) -> None:
        if not process.alive:
            return
        LOG.debug("%.1f killed %s", self.now, process.name)
        process.alive = False
        back = lambda: self.start(process.name, process.contract, process.boot)  # noqa: E731
        self.later(self.random.uniform(0.5, 50.0), None, back)

    def database(self, process: Process | None = None) -> Database:
        """A database of a process's own, which takes nothing from it once it is dead."""
        database = MortalDatabase(self.url, process=process, wall=lambda: self.now + self.database_step)
        self._databases.append(database)
        return database

    def close(self) -> None:
        uuid.uuid4 = self._uuid4
        for database in self._databases:
            database.close()

    # -- time and work ---------------------------------------------------------------------------------------------

    def later(self, seconds: float, process: Process | None, work: Callable[[], None]) -> None:
        """Queue work of a process; it is dropped if that incarnation is dead by then."""
        heapq.heappush(self._queue, (self.now + seconds, self.random.random(), next(self._number), process, work))

    def spawn(self, process: Process) -> Callable[[Callable[[], None]], None]:
        """For managers: what runs in the background of a process."""
        return lambda work: self.later(self.random.uniform(0.0, 0.5), process, work)

    def run(self, seconds: float) -> None:
        """Let the world go on for so long."""
        until = self.now + seconds
        while self._queue and self._queue[0][0] <= until:
            if not self._one(until):
                break
        self.now = max(self.now, until)

    def _one(self, until: float) -> bool:
        """Do the next piece of work of somebody who is not in the middle of something; False: there is none."""
        busy = {id(process) for process in self._stack}
        held = []
        try:
            while self._queue and self._queue[0][0] <= until:
                item = heapq.heappop(self._queue)
                due, _, _, process, work = item
                if process is not None and id(process) in busy:
                    held.append(item)
                    continue
                self.now = max(self.now, due)
                if process is None or process.alive:
                    self._work(process, work)
                return True
            return False
        finally:
            for item in held:
                heapq.heappush(self._queue, item)

    def _work(self, process: Process | None, work: Callable[[], None]) -> None:
        if process is not None:
            self._stack.append(process)
        try:
            work()
        except Killed:
            if process is None:
                raise
        except errors.MinovaError as error:
            LOG.debug("%s: %s", process and process.name, error)
        except Exception as error:
            LOG.exception("unexpected in %s", process and process.name)
            self.errors.append(f"{process and process.name}: {error!r}")
        finally:
            if process is not None:
                self._stack.pop()

    def pause(self, sender: Process | None) -> None:
        """A point where anything may happen: others go first, the sender dies."""
        if sender is not None:
            sender.check()
        if len(self._stack) < DEPTH and self.random.random() < self.faults.others_first:
            self._one(self.now + self.random.uniform(0.0, 2.0))
        if sender is not None:
            if self.faults.step and self.random.random() < self.faults.step:
                self._step(sender)
            if self.random.random() < self.faults.kill:
                self.kill(sender)
            sender.check()

    def _step(self, process: Process) -> None:
        """Back to the right time, if the clock has stepped before."""
        if self.random.random() < 0.5:
            self.database_step = 0.0 if self.database_step else self.random.choice(STEPS)
        else:
            process.step = 0.0 if process.step else self.random.choice(STEPS)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    # -- messages --------------------------------------------------------------------------------------------------

    def client(self, contract: Any, sender: Process | None, names: Callable[[], list[str]]) -> Any:
        """A real Proxy whose messages go to one of `names` that listens."""
        return rpc.Proxy(_Bus(self, sender, names), contract)


class _Bus:
    """What rpc.Proxy takes for oslo.messaging's client."""

    def __init__(self, world: World, sender: Process | None, names: Callable[[], list[str]]) -> None:
        self._world = world
        self._sender = sender
        self._names = names
        self._version = "1.0"

    def prepare(self, version: str) -> "_Bus":
        prepared = copy(self)
        prepared._version = version
        return prepared

    def call(self, ctx: Any, method: str, **arguments: Any) -> Any:
        world = self._world
        world.pause(self._sender)
        if world.chance(world.faults.lose):
            raise oslo_messaging.MessagingTimeout("the request was lost")
        try:
            answer = self._deliver(ctx, method, _wire(arguments))
        finally:
            if self._sender is not None:
                self._sender.check()
        world.pause(self._sender)
        if world.chance(world.faults.lose):
            raise oslo_messaging.MessagingTimeout("the answer was lost")
        return answer

    def cast(self, ctx: Any, method: str, **arguments: Any) -> None:
        world = self._world
        world.pause(self._sender)
        sent = _wire(arguments)
        for _ in range(2 if world.chance(world.faults.double) else 1):
            if world.chance(world.faults.lose):
                continue
            late = world.random.uniform(1.0, 90.0) if world.chance(world.faults.delay) else 0.01
            world.later(late, None, lambda: self._arrive(ctx, method, sent))

    def _arrive(self, ctx: Any, method: str, sent: Any) -> None:
        try:
            self._deliver(ctx, method, sent)
        except (oslo_messaging.MessagingTimeout, oslo_messaging.UnsupportedVersion, errors.MinovaError) as error:
            LOG.debug("cast %s: %s", method, error)

    def _refuse_newer(self, topic: str, method: str, sent: dict[str, Any]) -> None:
        """As a server of the last release: a version, method or argument that it does not know is an error."""
        served = LAST_RELEASE["contracts"][topic]
        if numbers(self._version) > numbers(served["version"]) or method not in served["methods"]:
            self._world.refused.append(f"{topic}.{method}")
            raise oslo_messaging.UnsupportedVersion(self._version, method=method)
        unknown = sent.keys() - served["methods"][method]["arguments"].keys()
        assert not unknown, f"{topic}.{method} of the last release has no arguments {unknown}"

    def _deliver(self, ctx: Any, method: str, sent: dict[str, Any]) -> Any:
        world = self._world
        listening = [world.processes[name] for name in self._names() if name in world.processes]
        listening = [process for process in listening if process.alive and process.endpoint is not None]
        if not listening:
            raise oslo_messaging.MessagingTimeout("nobody listens")
        process = world.random.choice(listening)
        if process.name in world.last_release:
            self._refuse_newer(process.contract.TOPIC, method, sent)
        world._stack.append(process)
        try:
            return _wire(getattr(process.endpoint, method)(ctx, **sent))
        except Killed:
            raise oslo_messaging.MessagingTimeout(f"{process.name} died") from None
        except oslo_messaging.ExpectedException as expected:
            raise expected.exc_info[1] from None
        finally:
            world._stack.pop()


def _wire(value: Any) -> Any:
    return json.loads(json.dumps(msgspec.to_builtins(value)))


class MortalDatabase(Database):
    def __init__(self, url: str, *, process: Process | None, wall: Callable[[], float]) -> None:
        super().__init__(url, wall=wall)
        self._process = process
        # What the machine's power supply could do to a file is not what is tried here.
        event.listen(self.engine, "connect", lambda dbapi, _: dbapi.execute("PRAGMA synchronous=OFF"))

    @contextmanager
    def read(self) -> Iterator[Session]:
        self._check()
        with super().read() as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        self._check()
        with super().write() as session:
            yield session
            self._check()

    def _check(self) -> None:
        if self._process is not None:
            self._process.check()


class MortalDriver:
    """A host's hypervisor as one incarnation of its compute sees it: the hypervisor lives on, the caller may die."""

    def __init__(self, driver: Any, process: Process) -> None:
        self._driver = driver
        self._process = process

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._driver, name)
        if not callable(value):
            return value

        def act(*args: Any, **kwargs: Any) -> Any:
            world = self._process.world
            world.pause(self._process)
            answer = value(*args, **kwargs)
            world.pause(self._process)
            return answer

        return act
