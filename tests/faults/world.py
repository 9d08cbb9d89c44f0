"""A whole cloud in one thread: the real handlers, a fake clock, and a bus that loses, doubles and delays by a seed.

A second delivery comes before the first one, right after it or up to LATE seconds later. Every message goes through the real Proxy and Endpoint, as JSON. At each message, and between any two pieces of work,
the world may let others go first, lose what is sent or answered, or kill the process at work: a killed process does
nothing any more, not even its clean-up, because its bus, database and hypervisor no longer take anything from it.

Wall clocks, of processes and of the database, may be steps away from the world's time. The database may be away at any
transaction, and the answer to a commit may be lost.
"""

import heapq
import itertools
import json
import logging
import math
import random
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import msgspec
import oslo_messaging
from sqlalchemy import Dialect, Engine, event
from sqlalchemy.orm import Session
from sqlalchemy.util import LRUCache

from minova import errors
from minova.cmd.conductor import implementation
from minova.compute.actions.action_run import Repeated
from minova.conductor.manager import ConductorManager
from minova.contracts.base import numbers
from minova.db.engine import Database, WriteSession
from minova.messaging import rpc
from minova.messaging.dispatch import Endpoint, Implementation
from minova.service import unless_safe

LOG = logging.getLogger(__name__)

LAST_RELEASE = json.loads((Path(__file__).parents[1] / "released" / "d8f8a1a.json").read_text())
STEPS = (-3600.0, 3600.0)  # seconds by which a wall clock steps
DEPTH = 3  # how many pieces of work may stand inside each other
OUTAGE = 1.0
# Seconds that one piece of work may wait for the end of safe mode before its process is started again.
PATIENCE = 120.0
# The broker may deliver a message again so many seconds later, at most.
LATE = 15.0
# Seconds after which a process that died is back, at least and at most.
DOWN_FOR = (0.5, 50.0)
DATABASE = "database"
SLOW, HANGS, AWAY = 100.0, 300.0, 20.0
# Methods of drivers that work on a guest. A compute holds only the guest's own lock then.
OF_GUESTS = frozenset(
    {
        *("shut_down", "power_off", "start", "hard_reboot", "pause", "unpause", "suspend", "resume", "rescue"),
        *("prepare_rescue", "snapshot", "rebuild", "inject_nmi", "set_admin_password"),
        *("attach_interface", "detach_interface"),
    }
)


# The dialect, which is a part of each key, and the statements that were compiled for it.
_COMPILED: list[tuple[Dialect, LRUCache[Any, Any]]] = []


class Killed(BaseException):
    """Not an Exception: nothing of ours may catch it."""


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """Chances, each asked for at every message."""

    lose: float = 0.0
    double: float = 0.0  # a call or cast is delivered twice; of a call, either answer may come first
    delay: float = 0.0
    kill: float = 0.0
    others_first: float = 0.3
    step: float = 0.0  # a wall clock, of the sender or of the database, steps by an hour
    # At every transaction of a process: the database goes away for OUTAGE seconds; it commits, and the answer is lost.
    database_away: float = 0.0
    lose_commit: float = 0.0
    # At every operation of a server action: it takes up to SLOW seconds, or HANGS; the hypervisor goes away for up to AWAY seconds,
    # before the operation or after it.
    slow: float = 0.0
    hang: float = 0.0
    hypervisor_away: float = 0.0


def _implementation(manager: Any) -> Implementation:
    if isinstance(manager, ConductorManager):
        return implementation(manager)
    return Implementation(parts=(manager,), safe_mode=manager.safe_mode)


class Process:
    """One incarnation of one service. `boot` makes its manager; a restart makes a new Process."""

    def __init__(self, world: "World", name: str, contract: Any, boot: Callable[["Process"], Any]) -> None:
        self.world = world
        self.name = name
        self.contract = contract
        self.boot = boot
        self.alive = True
        # When its present piece of work began.
        self.busy_since = 0.0
        # Whether it is in an operation of a server action, and so holds the lock of that instance alone.
        self.acts = False
        # What the kernel does when it dies, such as letting go of its locks.
        self.at_death: list[Callable[[], None]] = []
        self.manager: Any = None
        self.endpoint: Endpoint | None = None  # None until it listens

    def check(self) -> None:
        """Anything a process does to the world outside begins here."""
        if not self.alive:
            raise Killed(self.name)

    def start(self) -> None:
        self.manager = self.boot(self)
        self.manager.init_host()
        self.manager.pre_start_hook()
        self.endpoint = Endpoint(_implementation(self.manager), self.contract)
        self.manager.post_start_hook()
        for each in self.manager.periodic_tasks():
            task = unless_safe(each, self.manager.safe_mode)
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
        """The process ends by itself, and is started again as by systemd."""
        self._process.world.kill(self._process)

    def wait(self, timeout: float | None = None) -> bool:
        process, world = self._process, self._process.world
        process.check()
        safe_mode = None if process.manager is None else process.manager.safe_mode
        if safe_mode is not None and safe_mode.reason is not None and world.now - process.busy_since > PATIENCE:
            # What ends safe mode is done after the work in which this waits.
            world.kill(process)
            process.check()
        world.run(timeout or 0.0)
        process.check()
        return False


class World:
    """Everything random comes from `random`, everything timely from `now`: the same seed gives the same story."""

    def __init__(self, seed: int, url: str) -> None:
        self.random = random.Random(seed)
        self.down_for = DOWN_FOR
        self.url = url
        self.now = 1_700_000_000.0
        self.faults = Faults()
        self.processes: dict[str, Process] = {}
        self.errors: list[str] = []
        # Names of processes that serve what the last release served, and what they have refused: methods and versions.
        self.last_release: set[str] = set()
        self.refused: list[tuple[str, str]] = []
        self._queue: list[tuple[float, float, int, Process | None, Callable[[], None]]] = []
        # Until when the hypervisor of a host does not answer, by the host's name.
        self.hypervisor_back: dict[str, float] = {}
        self.on_operation: Callable[[Process, str, bool], None] = lambda process, name, is_done: None
        # Called with each message after it was served.
        self.on_delivery: Callable[[str, dict[str, Any]], None] = lambda method, sent: None
        # Names of methods whose messages are lost.
        self.lost_methods: set[str] = set()
        # Seconds that wall clocks are away from `now`: of processes, by name, and of the database.
        self.steps: dict[str, float] = {}
        self._down_until: dict[str, float] = {}
        self._database_back = 0.0
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
        self._work(process, lambda: self._start(process))

    def _start(self, process: Process) -> None:
        try:
            process.start()
        except errors.MinovaError as error:
            # It ends with this reason, and is started again as by systemd.
            LOG.debug("%s does not start: %s", process.name, error)
            self.kill(process)

    def kill(self, process: Process) -> None:
        if not process.alive:
            return
        LOG.debug("%.1f killed %s", self.now, process.name)
        process.alive = False
        for release in process.at_death:
            release()
        self._start_later(process)

    def _start_later(self, process: Process) -> None:
        back_at = max(self.now + self.random.uniform(*self.down_for), self._down_until.get(process.name, 0.0))
        if back_at < math.inf:
            self.later(back_at - self.now, None, lambda: self._back(process))

    def _back(self, process: Process) -> None:
        if self._down_until.get(process.name, 0.0) > self.now:
            self._start_later(process)
        elif self.processes.get(process.name) is process:
            self.start(process.name, process.contract, process.boot)

    def keep_down(self, names: Iterable[str], seconds: float) -> None:
        """Kill these now; none of them comes back before `seconds` have passed, which may be infinite."""
        for name in names:
            self._down_until[name] = self.now + seconds
            self.kill(self.processes[name])

    def replace(self, process: Process, name: str) -> None:
        """The process, which must be dead, comes back under another name, and now."""
        assert not process.alive
        del self.processes[process.name]
        self.start(name, process.contract, process.boot)

    # -- clocks and the database -----------------------------------------------------------------------------------

    def wall(self, name: str) -> float:
        """The wall clock of a process, or of the database."""
        return self.now + self.steps.get(name, 0.0)

    def database(self, process: Process | None = None) -> Database:
        """A database of a process's own, which takes nothing from it once it is dead."""
        database = MortalDatabase(self, process)
        self._databases.append(database)
        return database

    def reach_database(self) -> None:
        """ServiceUnavailable: it is away just now."""
        if self.chance(self.faults.database_away):
            self._database_back = self.now + OUTAGE
        if self.now < self._database_back:
            raise errors.ServiceUnavailable("The database does not answer: it is away")

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

    def elsewhere(self, process: Process, seconds: float) -> None:
        """The thread of an action waits so long; other threads of the process, and other processes, work meanwhile."""
        stack, self._stack = (
            self._stack,
            [running_process for running_process in self._stack if running_process is not process],
        )
        process.acts = False
        try:
            self.run(seconds)
        finally:
            self._stack, process.acts = stack, True
        process.check()

    def repeated(self, process: Process) -> Repeated:
        """For managers: signs of life of an action come from a thread of its own."""

        @contextmanager
        def repeated(seconds: float, work: Callable[[], bool]) -> Iterator[None]:
            is_over = False

            def again() -> None:
                if not is_over and work():
                    self.later(seconds, process, again)

            self.later(seconds, process, again)
            process.acts = True
            try:
                yield
            finally:
                is_over, process.acts = True, False

        return repeated

    def run(self, seconds: float) -> None:
        """Let the world go on for so long."""
        until = self.now + seconds
        while self._queue and self._queue[0][0] <= until:
            if not self._one(until):
                break
        self.now = max(self.now, until)

    def _one(self, until: float) -> bool:
        """Do the next piece of work of a process that is not in the middle of something; False: there is none."""
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
            if process not in self._stack:
                process.busy_since = self.now
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
        others_went = len(self._stack) < DEPTH and self.random.random() < self.faults.others_first
        if others_went:
            self._one(self.now + self.random.uniform(0.0, 2.0))
        if sender is not None:
            if self.faults.step and self.random.random() < self.faults.step:
                self._step(sender)
            dies = self.random.random() < self.faults.kill
            if dies:
                self.kill(sender)
            # Where nothing has happened, a check is the same step as the one above: the crash tables kill at each.
            if others_went or dies:
                sender.check()

    def _step(self, process: Process) -> None:
        """Back to the right time, if the clock has stepped before."""
        name = DATABASE if self.random.random() < 0.5 else process.name
        self.steps[name] = 0.0 if self.steps.get(name) else self.random.choice(STEPS)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    # -- messages --------------------------------------------------------------------------------------------------

    def loses(self) -> bool:
        """Whether the broker loses this message or answer."""
        return self.chance(self.faults.lose)

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

    def prepare(self, version: str, topic: str | None = None) -> "_Bus":
        """`topic`: one process serves all topics of its contract here."""
        prepared = copy(self)
        prepared._version = version
        return prepared

    def call(self, ctx: Any, method: str, **arguments: Any) -> Any:
        world = self._world
        world.pause(self._sender)
        if world.loses():
            raise oslo_messaging.MessagingTimeout("the request was lost")
        try:
            answer = self._answer(ctx, method, self._sent(method, arguments))
        except BaseException:
            if self._sender is not None:
                self._sender.check()
            raise
        world.pause(self._sender)
        if world.loses():
            raise oslo_messaging.MessagingTimeout("the answer was lost")
        return answer

    def _sent(self, method: str, arguments: dict[str, Any]) -> Any:
        """A service of the last release registers without a number."""
        sent = _wire(arguments)
        if method == "register_service" and self._sender is not None and self._sender.name in self._world.last_release:
            del sent["service"]["version"]
        return sent

    def _answer(self, ctx: Any, method: str, sent: Any) -> Any:
        """The first answer that comes: of the first delivery, or of a second one that overtakes it."""
        world = self._world
        if not world.faults.double or not world.chance(world.faults.double):
            return self._deliver(ctx, method, sent)
        again = world.random.choice(["before", "after", "late", "late"])
        if again == "late":
            world.later(world.random.uniform(0.0, LATE), None, lambda: self._arrive(ctx, method, sent))
            return self._deliver(ctx, method, sent)
        if again == "before":
            self._arrive(ctx, method, sent)
            return self._deliver(ctx, method, sent)
        try:
            return self._deliver(ctx, method, sent)
        finally:
            self._arrive(ctx, method, sent)

    def cast(self, ctx: Any, method: str, **arguments: Any) -> None:
        world = self._world
        world.pause(self._sender)
        if method in world.lost_methods:
            return
        sent = _wire(arguments)
        for again in range(2 if world.chance(world.faults.double) else 1):
            if world.loses():
                continue
            if world.chance(world.faults.delay):
                late = world.random.uniform(1.0, 90.0)
            else:
                late = world.random.uniform(0.0, LATE) if again else 0.01
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
            self._world.refused.append((f"{topic}.{method}", self._version))
            raise oslo_messaging.UnsupportedVersion(self._version, method=method)
        unknown = sent.keys() - served["methods"][method]["arguments"].keys()
        assert not unknown, f"{topic}.{method} of the last release has no arguments {unknown}"

    def _deliver(self, ctx: Any, method: str, sent: dict[str, Any]) -> Any:
        world = self._world
        listening = [world.processes[name] for name in self._names() if name in world.processes]
        listening = [process for process in listening if process.alive and process.endpoint is not None]
        if not listening:
            raise oslo_messaging.MessagingTimeout("no service listens")
        process = world.random.choice(listening)
        if process.name in world.last_release:
            self._refuse_newer(process.contract.TOPIC, method, sent)
        world._stack.append(process)
        try:
            answer = _wire(getattr(process.endpoint, method)(ctx, **sent))
            world.on_delivery(method, sent)
            return answer
        except Killed:
            raise oslo_messaging.MessagingTimeout(f"{process.name} died") from None
        except oslo_messaging.ExpectedException as expected:
            raise expected.exc_info[1] from None
        finally:
            world._stack.pop()


def _wire(value: Any) -> Any:
    return json.loads(json.dumps(msgspec.to_builtins(value)))


class MortalDatabase(Database):
    """`process` None: of the tests themselves, which no fault concerns."""

    def __init__(self, world: World, process: Process | None) -> None:
        super().__init__(world.url, wall=lambda: world.wall(DATABASE))
        self._world = world
        self._process = process
        # What the machine's power supply could do to a file is not what is tried here.
        event.listen(self.engine, "connect", lambda dbapi, _: dbapi.execute("PRAGMA synchronous=OFF"))
        _share_statements(self.engine)

    @contextmanager
    def read(self) -> Iterator[Session]:
        self._reach()
        with super().read() as session:
            yield session

    @contextmanager
    def write(self, session_class: type[WriteSession] | None = None) -> Iterator[Session]:
        self._reach()
        with super().write(session_class) as session:
            yield session
            self._reach()
        if self._process is not None and self._world.chance(self._world.faults.lose_commit):
            raise errors.ServiceUnavailable("The database does not answer: the answer to the commit was lost")

    def _reach(self) -> None:
        if self._process is not None:
            self._process.check()
            self._world.reach_database()


def _share_statements(engine: Engine) -> None:
    """All engines of this process of tests compile a statement once. Each incarnation of a service would else compile all of its own,
    which takes longer than they take to run.
    """
    if not _COMPILED:
        _COMPILED.append((engine.dialect, LRUCache(2000)))
    engine.dialect, engine._compiled_cache = _COMPILED[0]


class MortalDriver:
    """A host's hypervisor as one incarnation of its compute sees it: the hypervisor lives on, the caller may die.

    `World.on_operation` is called with each operation of a server action, and whether it is done; it may wait and raise.
    """

    def __init__(self, driver: Any, process: Process) -> None:
        self._driver = driver
        self._process = process

    def _reach(self) -> None:
        """Raises HypervisorUnavailable while the hypervisor is away."""
        world = self._process.world
        if world.now < world.hypervisor_back.get(self._process.name, 0.0):
            raise errors.HypervisorUnavailable("libvirtd does not answer")

    def _meet(self, name: str, *, is_done: bool) -> None:
        """What happens before or after an operation of a server action."""
        world, faults = self._process.world, self._process.world.faults
        if not self._process.acts:
            return
        world.on_operation(self._process, name, is_done)
        if faults.hypervisor_away and world.chance(faults.hypervisor_away / 2):
            world.hypervisor_back[self._process.name] = world.now + world.random.uniform(1.0, AWAY)
        if is_done:
            return
        if faults.hang and world.chance(faults.hang):
            world.elsewhere(self._process, HANGS)
        elif faults.slow and world.chance(faults.slow):
            world.elsewhere(self._process, world.random.uniform(1.0, SLOW))

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._driver, name)
        if not callable(value):
            return value

        def act(*args: Any, **kwargs: Any) -> Any:
            world = self._process.world
            world.pause(self._process)
            if name in OF_GUESTS:
                self._meet(name, is_done=False)
            self._reach()
            answer = value(*args, **kwargs)
            if name in OF_GUESTS:
                self._meet(name, is_done=True)
                self._reach()
            world.pause(self._process)
            return answer

        return act
