"""A clock that is stepped for other processes: at once, in Python and in a database, and without any effect on waits."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.servers.mariadb import MariaDB
from tests.servers.postgresql import PostgreSQL
from tests.servers.stepped_clock import SteppedClock

HOUR = 3600.0
PROGRAM = """
import sys, threading, time
for _ in sys.stdin:
    begun = time.monotonic()
    time.sleep(0.05)
    threading.Event().wait(0.05)
    print(time.time(), time.monotonic() - begun, flush=True)
"""


@pytest.fixture
def clock(tmp_path: Path) -> SteppedClock:
    return SteppedClock(tmp_path / "clock")


@pytest.fixture
def child(clock: SteppedClock) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ) | clock.environment,
    ) as child:
        yield child
        child.kill()


def ask(child: "subprocess.Popen[str]") -> tuple[float, float]:
    """How far its clock is from ours, and how long its waits of 0.1 s took."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("\n")
    child.stdin.flush()
    wall, waited = child.stdout.readline().split()
    return float(wall) - time.time(), float(waited)


@pytest.mark.parametrize("offset", [HOUR, -HOUR])
def test_a_step_moves_the_wall_clock_and_no_wait(
    clock: SteppedClock, child: "subprocess.Popen[str]", offset: float
) -> None:
    for clock_offset in (0.0, offset, 0.0):
        clock.step_to(clock_offset)
        apart, waited = ask(child)
        assert abs(apart - clock_offset) < HOUR / 4
        assert 0.1 <= waited < HOUR / 4


@pytest.mark.parametrize(
    ("kind", "epoch"),
    [
        (PostgreSQL, "select extract(epoch from clock_timestamp())"),
        (MariaDB, "select unix_timestamp(sysdate(6))"),
    ],
)
def test_a_database_follows_its_stepped_clock(
    clock: SteppedClock, kind: type[PostgreSQL] | type[MariaDB], epoch: str
) -> None:
    with kind(environment=clock.environment) as server:
        engine = create_engine(server.url)
        try:
            for clock_offset in (0.0, HOUR, -HOUR):
                clock.step_to(clock_offset)
                with engine.connect() as connection:
                    now = float(connection.scalar(text(epoch)) or 0)
                assert abs(now - time.time() - clock_offset) < HOUR / 4
        finally:
            engine.dispose()
