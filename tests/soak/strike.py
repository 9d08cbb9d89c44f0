"""Do what a fault says, and put it right. Every service is under one fault at a time."""

import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable

from tests.soak.another_cloud import AnotherCloud
from tests.soak.cloud import Cloud
from tests.soak.gate import FaultGate
from tests.soak.journal import Journal
from tests.soak.plan import BACK_IN_TIME, COMPUTES, NOT_BESIDE_OLD_CONDUCTORS, NOT_WHILE_BACK_IN_TIME, Fault
from tests.soak.recovery import Recovery
from tests.waiting import wait_for

UPGRADED_WITHIN = 180.0
FORCED_WITHIN = 240.0


class Striker:
    """Each fault has a thread of its own, which ends when all is put right."""

    def __init__(self, cloud: Cloud, recovery: Recovery, journal: Journal) -> None:
        self._cloud = cloud
        self._recovery = recovery
        self._another = AnotherCloud(cloud, journal)
        self._gate = FaultGate()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self.done: Counter[str] = Counter()
        self.failed: list[str] = []
        self._acts: dict[str, Callable[[Fault, str], None]] = {
            "kill": self._kill,
            "stop": self._stop,
            "terminate": self._terminate,
            "power": self._power,
            "rename": self._rename,
            "clock": self._clock,
            "restart": self._restart,
            "alarm": self._alarm,
            "another": self._mislead,
            "upgrade": self._upgrade,
            "restore": lambda fault, _: self._recovery.restore(fault.length),
            "promote": lambda fault, _: self._recovery.promote(fault.length),
        }

    def strike(self, fault: Fault) -> None:
        self.done[fault.kind] += 1
        for target in fault.targets:
            thread = threading.Thread(target=self._run, args=(fault, target), name=fault.kind, daemon=True)
            thread.start()
            self._threads.append(thread)

    def finish(self, timeout: float) -> None:
        """Wait until every fault is put right."""
        until = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                self.failed.append(f"'{thread.name}' is not put right after {timeout:.0f} s")
        self._another.close()

    def _run(self, fault: Fault, target: str) -> None:
        try:
            if fault.kind in NOT_BESIDE_OLD_CONDUCTORS:
                # A conductor may take longer to stop than the plan expects.
                wait_for("every conductor is upgraded", self._cloud.conductors_are_new, UPGRADED_WITHIN)
            with self._passed(fault.kind), self._cloud.locks[target]:
                self._acts[fault.kind.split()[0]](fault, target)
        except Exception as error:  # noqa: BLE001  - whatever it is, it is reported
            with self._lock:
                self.failed.append(f"{fault.kind} of {target}: {error!r}")

    def _passed(self, kind: str) -> contextlib.AbstractContextManager[None]:
        """The gate between what takes the database back in time and what may not happen meanwhile."""
        if kind in BACK_IN_TIME:
            return self._gate.alone()
        return self._gate.together() if kind in NOT_WHILE_BACK_IN_TIME else contextlib.nullcontext()

    def _hold(self, fault: Fault) -> None:
        """Each fault lasts as long as the plan says."""
        time.sleep(fault.length)

    def _kill(self, fault: Fault, target: str) -> None:
        if target in {"broker", "database"}:
            self._server(fault, target, kill=True)
            return
        self._cloud.kill(target)
        self._hold(fault)
        self._cloud.start(target)

    def _mislead(self, fault: Fault, target: str) -> None:
        act = self._another.mislead_compute if target in COMPUTES else self._another.mislead_controller
        act(target, fault.length)

    def _stop(self, fault: Fault, target: str) -> None:
        self._cloud.stop_for_a_while(target, fault.length, time.sleep)

    def _terminate(self, fault: Fault, target: str) -> None:
        self._cloud.terminate(target)
        self._hold(fault)
        self._cloud.start(target)

    def _power(self, fault: Fault, target: str) -> None:
        """An operator has its servers evacuated. The host returns, removes what is no longer its own, and serves again."""
        host = self._cloud.hosts[target]
        self._cloud.kill(target)
        self._cloud.fail_power(target)
        try:
            self._force(host, down=True)
            self._cloud.cli("host", "evacuate", host, "--max-servers", "6", "--timeout", "40")
            self._hold(fault)
        finally:
            self._cloud.start(target)
        self._force(host, down=False)

    def _force(self, host: str, *, down: bool) -> None:
        """It is refused while evacuations await what the host removes."""

        def is_so() -> bool:
            self._cloud.cli("service", "set", host, "--down" if down else "--up")
            try:
                rows = json.loads(self._cloud.cli("service", "list", "--long", "-f", "json"))
            except ValueError:
                return False  # the API is away
            return any(row["Host"] == host and bool(row["Forced Down"]) is down for row in rows)

        wait_for(f"{host} is forced {'down' if down else 'up'}", is_so, FORCED_WITHIN)

    def _rename(self, fault: Fault, target: str) -> None:
        self._cloud.terminate(target)
        self._hold(fault)
        self._cloud.rename(target)
        self._cloud.start(target)

    def _upgrade(self, fault: Fault, target: str) -> None:
        """It runs the last release for a while, and the new one afterwards."""
        if target not in self._cloud.old:
            self._cloud.replace(target, old=True)
        self._hold(fault)
        self._cloud.replace(target, old=False)

    def _clock(self, fault: Fault, target: str) -> None:
        clock = self._cloud.clocks[target]
        clock.step_to(fault.step)
        try:
            self._hold(fault)
        finally:
            clock.step_to(0.0)

    def _restart(self, fault: Fault, target: str) -> None:
        self._server(fault, target, kill=False)

    def _alarm(self, fault: Fault, target: str) -> None:
        """The broker takes no messages."""
        with self._cloud.broker.alarm():
            self._hold(fault)

    def _server(self, fault: Fault, target: str, *, kill: bool) -> None:
        server = self._cloud.broker if target == "broker" else self._cloud.database
        with contextlib.ExitStack() as stack:
            stack.callback(server.start)
            if kill:
                server.kill()
            else:
                server.stop()
            self._hold(fault)
