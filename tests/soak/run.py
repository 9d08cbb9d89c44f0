"""One run: start the cloud, let users work while faults happen, put all right, wait for quiet, and look."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from minova import errors
from minova.db.engine import Database
from tests.integration.released import Release
from tests.soak.cloud import STARTED_WITHIN, STOP_WITHIN, Cloud
from tests.soak.journal import Journal
from tests.soak.logs import unexpected
from tests.soak.plan import ALL_KINDS, Fault, of_the_last_release, plan
from tests.soak.recovery import Recovery
from tests.soak.strike import Striker
from tests.soak.users import PATIENCE, User
from tests.soak.verify import check, outcome
from tests.soak.watch import Watch

USERS = 4
# Seconds from one act of a user to the next, on average.
USER_PAUSE = 0.8
# All is up again, and all work has ended, within these seconds after the last fault.
UP_WITHIN, QUIET_WITHIN = 120.0, 240.0
# A service that goes back to the last release and is upgraded again stops twice and starts twice. Each of these has a bound of its
# own, which a busy machine needs; another fault of the same service waits for them.
PUT_RIGHT_WITHIN = 2 * (STOP_WITHIN + STARTED_WITHIN) + UP_WITHIN


class Report(msgspec.Struct, kw_only=True):
    """Times in seconds. `quiet_after`: from the last fault put right and the last answer until all was as it must be."""

    seed: int
    seconds: float
    operations: Counter[str]
    servers: int
    repeats: Counter[str]
    faults: Counter[str]
    states: Counter[str]
    reasons: Counter[str]
    longest_request: float
    longest_request_for: str
    longest_boot: float
    slowest_boot: str
    median_boot: float
    quiet_after: float
    # Guests that ran when the database went back in time, what was adopted, and deletions that were lost.
    ran: int
    adopted: int
    deletions_lost: int
    violations: list[str]

    @property
    def text(self) -> str:
        creates = sum(count for name, count in self.operations.items() if name.startswith("create"))
        row = {
            "seed": self.seed,
            "seconds": f"{self.seconds:.0f}",
            "requests": self.operations["requests"],
            "repeated": self.repeats.total(),
            "creates": creates,
            "servers": self.servers,
            "deletes": self.operations["delete"],
            "moves": sum(self.operations[kind] for kind in ("migrate", "live", "resize", "confirm", "revert")),
            "faults": self.faults.total(),
            "longest request": f"{self.longest_request:.1f} s",
            "median boot": f"{self.median_boot:.2f} s",
            "longest boot": f"{self.longest_boot:.1f} s",
            "ACTIVE, ERROR, gone": ", ".join(str(self.states[name]) for name in ("active", "error", "gone")),
            "quiet after": f"{self.quiet_after:.1f} s",
            "violations": len(self.violations),
        }
        lines = [_row(row), _row(dict.fromkeys(row, "---"), names=False), _row(row, names=False), ""]
        lines += [
            f"faults: {_counts(self.faults)}",
            f"operations: {_counts(self.operations)}",
            f"repeated after: {_counts(self.repeats)}",
            f"longest request: {self.longest_request_for}; slowest boot: {self.slowest_boot}",
        ]
        if self.ran:
            lines.append(
                f"back in time: {self.ran} guests ran, {self.adopted} guests and images were adopted, {self.deletions_lost} servers "
                "were deleted again"
            )
        lines += [f"in error: {count} x {reason}" for reason, count in self.reasons.most_common(10)]
        lines += [f"VIOLATION: {words}" for words in self.violations]
        return "\n".join(lines)


def _row(cells: Mapping[str, object], *, names: bool = True) -> str:
    return "| " + " | ".join(map(str, cells if names else cells.values())) + " |"


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items())) or "none"


def run(
    seed: int,
    seconds: float,
    folder: Path,
    *,
    kinds: Sequence[str] = ALL_KINDS,
    tell: Callable[[str], None] = lambda line: None,
) -> Report:
    """`folder` must be there, and keeps all that the processes write. `tell` is told each fault as it begins."""
    journal = Journal()
    faults = plan(seed, seconds, kinds)
    old = of_the_last_release(faults)
    tell(f"of the last release at the start: {', '.join(sorted(old)) or 'none'}")
    release = Release(folder / "release") if any(fault.kind.startswith("upgrade") for fault in faults) else None
    with Cloud(folder, release, old) as cloud:
        cloud.wait_up(UP_WITHIN)
        image = _stock(cloud, folder)
        database = Database(cloud.database_url)
        watch = Watch(database, journal)
        watch.start()
        try:
            users = [User(f"user-{n}", seed, cloud.urls, image, journal, USER_PAUSE) for n in range(1, USERS + 1)]
            for user in users:
                user.start()
            journal.image_uploaded(image)
            recovery = Recovery(cloud, journal, database, lambda: all(user.is_ready.is_set() for user in users))
            striker = _storm(Striker(cloud, recovery, journal), cloud, faults, seconds, tell)
            tell("quiet")
            wrong, took = _quiet(cloud, database, journal, users, watch)
            with database.read() as session:
                states, reasons = outcome(session)
        finally:
            watch.stopping.set()
            watch.join(10)
            database.close()
        return Report(
            seed=seed,
            seconds=seconds,
            operations=journal.operations,
            servers=states.total(),
            repeats=journal.repeats,
            faults=striker.done,
            states=states,
            reasons=reasons,
            longest_request=journal.longest_wait,
            longest_request_for=journal.longest_wait_for,
            longest_boot=watch.longest_boot,
            slowest_boot=watch.slowest,
            median_boot=sorted(watch.boots)[len(watch.boots) // 2] if watch.boots else 0.0,
            quiet_after=took,
            ran=len(journal.guests),
            adopted=len(journal.adopted),
            deletions_lost=len(journal.deleted_again),
            violations=[*journal.violations, *cloud.unexpected, *striker.failed, *wrong, *_tracebacks(cloud)],
        )


def _stock(cloud: Cloud, folder: Path) -> str:
    """Flavors and an image; the image's id."""
    disk = folder / "disk.raw"
    disk.write_bytes(b"\1" * 4096)
    flavors = ("tiny", "128", ()), ("small", "256", ()), ("pinned", "128", ("--property", "hw:cpu_policy=dedicated"))
    for name, memory, more in flavors:
        cloud.cli("flavor", "create", name, "--id", name, "--ram", memory, "--disk", "1", "--vcpus", "1", *more)
    output = cloud.cli("image", "create", "i", "--file", str(disk), "--disk-format", "raw", "-f", "json")
    return str(msgspec.json.decode(output)["id"])


def _storm(
    striker: Striker, cloud: Cloud, faults: Sequence[Fault], seconds: float, tell: Callable[[str], None]
) -> Striker:
    """Until all faults are put right."""
    begun = time.monotonic()
    for fault in faults:
        while time.monotonic() - begun < fault.at:
            time.sleep(max(0.0, min(1.0, fault.at - (time.monotonic() - begun))))
            cloud.note_all_dead()
        step = f", step {fault.step:+.0f} s" if fault.step else ""
        tell(f"{fault.at:6.1f} {fault.kind}: {', '.join(fault.targets)} for {fault.length} s{step}")
        striker.strike(fault)
    time.sleep(max(0.0, seconds - (time.monotonic() - begun)))
    striker.finish(PUT_RIGHT_WITHIN)
    return striker


def _quiet(
    cloud: Cloud, database: Database, journal: Journal, users: Sequence[User], watch: Watch
) -> tuple[list[str], float]:
    """Wait until nothing is wrong; what is wrong at last, and how long it took."""
    for user in users:
        user.stopping.set()
    for user in users:
        user.join(PATIENCE + 60)
        if user.is_alive():
            journal.violation(f"{user.name} still waits for an answer")
    begun = time.monotonic()
    while True:
        cloud.note_all_dead()
        wrong = _look(cloud, database, journal)
        took = time.monotonic() - begun
        if not wrong or took > QUIET_WITHIN:
            break
        time.sleep(1.0)
    try:
        cloud.wait_up(UP_WITHIN)
    except AssertionError as error:
        wrong.append(str(error))
    return wrong, took


def _tracebacks(cloud: Cloud) -> list[str]:
    logs = {name: service.log for name, service in cloud.services.items()}
    return unexpected(logs, str(cloud.folder / "release"))


def _look(cloud: Cloud, database: Database, journal: Journal) -> list[str]:
    try:
        with database.read() as session:
            return check(session, cloud, journal)
    except errors.ServiceUnavailable as error:
        return [str(error)]
