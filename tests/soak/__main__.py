"""Processes of a whole cloud under users and faults: python -m tests.soak SEED SECONDS [KIND...]

RabbitMQ, PostgreSQL, two APIs, three conductors, two schedulers and eight computes with fake hypervisors, all as processes.
Users create, move and delete servers, and operators evacuate hosts, while faults drawn from the seed happen. At the end all is put right, and every acknowledged
server must be ACTIVE, ERROR with its reason, or gone; allocations, usage, domains and rows must agree. Exit status 1: they do
not, and the folder with all logs is kept. KIND: only faults whose kind has these words.

Every service is upgraded from the last release in every second run. Schedulers, APIs and computes also go back to it and are
upgraded again; conductors do not, because all of the new release would have to stop first and [upgrade_levels] be set in all
services (docs/operators/upgrade.md, Rollback). A cloud without conductors and with new levels is no fault among others.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from tests.soak.plan import ALL_KINDS
from tests.soak.run import run


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    seed, seconds, words = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    kinds = [kind for kind in ALL_KINDS if not words or any(word in kind for word in words)]
    folder = Path(tempfile.mkdtemp(prefix=f"minova-soak-{seed}-"))
    print(f"seed {seed}, {seconds:.0f} s, in {folder}", flush=True)
    report = run(seed, seconds, folder, kinds=kinds, tell=lambda line: print(line, flush=True))
    print(report.text, flush=True)
    if report.violations:
        (folder / "report.txt").write_text(report.text)
        print(f"kept: {folder}")
        sys.exit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
