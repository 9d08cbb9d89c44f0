"""The race, and what must hold after it: shared by the engines."""

import subprocess
import sys
from pathlib import Path

from minova.db.engine import Database
from tests.functional.placement import group_races, races
from tests.functional.scheduler.cloud import inventory_rows, unbalanced

ROOT = Path(__file__).parents[3]


def run_race(db: Database, url: str, *, processes: int, steps: int, groups: bool = False) -> int:
    """Answers how many claims were given. Asserts that every process ended well and that the books are right.

    `groups`: members of server groups are fought over, and each process looks at their policies after every claim.
    """
    race = group_races if groups else races
    race.prepare(db)
    command = [sys.executable, "-m", race.__name__, url]
    running = [
        subprocess.Popen(
            [*command, str(number), str(steps)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for number in range(processes)
    ]
    ended = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0] * processes, "\n".join(error for _, error in ended)
    assert not unbalanced(inventory_rows(db))
    return sum(int(output) for output, _ in ended)
