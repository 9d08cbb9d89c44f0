"""What a conductor does for a server action, on PostgreSQL: CPU time, statements and transactions of each of its three calls."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import msgspec
from sqlalchemy import event

from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.servers.postgresql import PostgreSQL
from tests.tables import make_tables

# Kind, arguments, and the power state that its host reports.
ACTIONS: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("stop", {}, 4),
    ("start", {}, 1),
    ("reboot_hard", {"reboot_type": "HARD"}, 1),
)
WARM_UP = 5


class Meter:
    """Counts what one engine is asked for."""

    def __init__(self, engine: Any) -> None:
        self.statements = self.commits = 0
        self.rows: dict[str, list[tuple[float, int, int]]] = {}
        event.listen(engine, "before_cursor_execute", self._executed)
        event.listen(engine, "commit", self._committed)

    def _executed(self, *arguments: object) -> None:
        self.statements += 1

    def _committed(self, connection: object) -> None:
        self.commits += 1

    def run(self, name: str, work: Callable[[], object]) -> None:
        statements, commits, begun = self.statements, self.commits, time.thread_time()
        work()
        taken = time.thread_time() - begun
        self.rows.setdefault(name, []).append((taken, self.statements - statements, self.commits - commits))


def measure(rounds: int) -> None:
    with PostgreSQL() as database:
        url = database.fresh_url()
        make_tables(url)
        harness = ConductorHarness(url, wall=True)
        uuid = harness.active()
        meter = Meter(harness.db.engine)
        for number in range(rounds + WARM_UP):
            for kind, arguments, power_state in ACTIONS:
                act(harness, meter, uuid, f"{number}-{kind}", kind, arguments, power_state)
        harness.close()
    print("| call | CPU ms | statements | transactions |\n| --- | --- | --- | --- |")
    for name, rows in meter.rows.items():
        _, statements, commits = rows[-1]
        print(f"| {name} | {median(row[0] for row in rows[WARM_UP:]) * 1000:.2f} | {statements} | {commits} |")


def act(
    harness: ConductorHarness,
    meter: Meter,
    uuid: str,
    request_id: str,
    kind: str,
    arguments: dict[str, Any],
    power_state: int,
) -> None:
    ctx, conductor = msgspec.structs.replace(CTX, request_id=f"req-{request_id}"), harness.conductor
    start: dict[str, Any] = {"instance_uuid": uuid, "action": kind, "arguments": arguments}
    meter.run(f"{kind}: start_action", lambda: conductor.start_action(ctx, **start))
    report: dict[str, Any] = {"instance_uuid": uuid, "action_id": harness.hosts["a"].actions[-1][2], "host": "a"}
    meter.run(f"{kind}: begin_action", lambda: conductor.begin_action(ctx, **report))
    meter.run(f"{kind}: action_succeeded", lambda: conductor.action_succeeded(ctx, **report, power_state=power_state))
