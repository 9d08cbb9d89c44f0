"""Many computes in one process, each of which beats and audits as often as it is told."""

import heapq
import random
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from minova import errors
from minova.compute.manager import AUDIT_INTERVAL, BINARY
from minova.compute.tracker.nodes import settings_from
from minova.compute.tracker.resource_tracker import ResourceTracker
from minova.context import service_context
from minova.objects.hosts.service import Service
from tests.benchmarks.computes.clones import service_uuid
from tests.fakes.hypervisor import Hypervisor

THREADS = 16
# Seconds until what failed is tried again.
AGAIN = 10.0
# What each step asks of the conductor.
CALLS = {"beat": 1, "audit": 2}


class Compute:
    """A tracker as a compute has it, on a fake hypervisor without domains. Each step answers the seconds to the next."""

    def __init__(self, host: str, conf: Any, conductor: Any) -> None:
        self._host = host
        self._conductor = conductor
        self._tracker = ResourceTracker(settings_from(conf, host), host, Hypervisor(host), conductor)
        self._audit_interval = AUDIT_INTERVAL

    def begin(self) -> None:
        service = Service(uuid=service_uuid(self._host), host=self._host, binary=BINARY, topic="compute")
        self._conductor.register_service(service_context(), service=service)
        self.audit()

    def beat(self) -> float:
        answer = self._conductor.heartbeat(service_context(), host=self._host, binary=BINARY, down_reason=None)
        self._audit_interval = max(AUDIT_INTERVAL, answer.audit_interval)
        return float(answer.heartbeat_interval)

    def audit(self) -> float:
        self._tracker.update_available_resource(service_context())
        return self._audit_interval


class Simulation:
    """Threads that take each step when its time has come, earliest first."""

    def __init__(self, computes: Sequence[Compute]) -> None:
        self._computes = computes
        self._due: list[tuple[float, int, str]] = []
        self._lock = threading.Lock()
        self.late: list[float] = []
        self.calls = 0
        self.failed = 0

    def begin(self, **intervals: float) -> None:
        """They have started long ago: the next step of each comes at any time within its interval (seconds)."""
        now = time.monotonic()
        for number in range(len(self._computes)):
            for step, interval in intervals.items():
                heapq.heappush(self._due, (now + random.uniform(0, interval), number, step))

    def run(self, seconds: float) -> None:
        self.calls, self.failed, self.late = 0, 0, []
        until = time.monotonic() + seconds
        threads = [threading.Thread(target=self._work, args=(until,)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(self, until: float) -> None:
        while (now := time.monotonic()) < until:
            with self._lock:
                at = self._due[0][0] if self._due else until
                step = heapq.heappop(self._due) if at <= now else None
            if step is None:
                time.sleep(min(0.01, at - now))
            else:
                self._take(*step)

    def _take(self, at: float, number: int, step: str) -> None:
        late = time.monotonic() - at
        interval = AGAIN
        try:
            interval = getattr(self._computes[number], step)()
        except (errors.MinovaError, TimeoutError) as error:
            print(f"{step}: {type(error).__name__} {error}", file=sys.stderr)
            self.failed += 1
        now = time.monotonic()
        with self._lock:
            self.calls += CALLS[step]
            self.late.append(late)
            # Jittered as in a service, where they shall not come at once either.
            heapq.heappush(self._due, (now + interval * random.uniform(0.9, 1.0), number, step))
