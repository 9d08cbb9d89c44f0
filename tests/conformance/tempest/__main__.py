"""Tempest's tests of the Compute API over HTTP: minova's real services with a fake driver, over RabbitMQ and PostgreSQL, with a
Keystone and a Glance from their packages.

    python -m tests.conformance.tempest [--tempest PYTHON] [--folder FOLDER] [--document] [--results FILE] [--processes N]
        [WORD...]

An extra: the first run installs Tempest in an environment of its own. `tox -e tempest` runs it. WORD: only classes with it in
their names. --document: write the table into docs/reference/compatibility.md. Exit code 0: each test that failed or was skipped
has its reason in reasons.py, and at least as many passed as the table says.
"""

import argparse
import logging
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.tempest import settings
from tests.conformance.tempest.cloud import cloud
from tests.conformance.tempest.report import PASSED, outcomes, passed_in, table, unexplained
from tests.conformance.tempest.run import classes, run_all

TEMPEST = "47.0.0"
HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent
DEFAULT = ROOT / ".tox" / "tempest-packages"
PAGE = ROOT / "docs" / "reference" / "compatibility.md"
BEGIN, END = "<!-- Made by tox -e tempest. -->\n", "<!-- End of Tempest. -->"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.tempest", description=__doc__)
    parser.add_argument("--tempest", type=Path, help="an interpreter that has Tempest already")
    parser.add_argument("--folder", type=Path, default=DEFAULT, help="where Tempest is put")
    parser.add_argument("--document", action="store_true", help=f"write the table into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--results", type=Path, help="write what each test said, one JSON object a line")
    parser.add_argument("--log", type=Path, help="what minova logs")
    parser.add_argument("--processes", type=int, default=3, help="how many classes at once (3)")
    parser.add_argument("words", nargs="*", metavar="WORD")
    options = parser.parse_args(arguments)
    logging.basicConfig(filename=options.log or "/dev/null", filemode="w", level=logging.INFO)
    python = options.tempest or installed(options.folder)
    with tempfile.TemporaryDirectory(prefix="tempest") as name, cloud() as new_cloud:
        folder = Path(name)
        settings.write(folder, new_cloud)
        chosen = [
            each for each in classes(python, folder) if not options.words or any(word in each for word in options.words)
        ]
        with (options.results or Path("/dev/null")).open("w") as results:
            tests = run_all(python, folder, chosen, options.processes, results)
    test_outcomes = outcomes(tests)
    for outcome in unexplained(test_outcomes):
        print(f"{outcome.kind.upper()} WITHOUT A REASON {outcome.test}: {outcome.said}")
    print(table(test_outcomes))
    passed = sum(outcome.kind == PASSED for outcome in test_outcomes)
    fewer = not options.words and passed < passed_in(section(PAGE))
    if fewer:
        print(f"{passed} passed: fewer than {PAGE.relative_to(ROOT)} says")
    if options.document:
        document(PAGE, table(test_outcomes))
    return int(fewer or bool(unexplained(test_outcomes)))


def installed(folder: Path) -> Path:
    python = folder / "bin" / "python"
    probe = subprocess.run([str(python), "-c", "import tempest"], capture_output=True) if python.exists() else None
    if probe is None or probe.returncode:
        print(f"Installing Tempest {TEMPEST} in {folder}", flush=True)
        venv.create(folder, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", f"tempest=={TEMPEST}"], check=True)
    return python


def section(page: Path) -> str:
    """The table that stands in the page."""
    return page.read_text().partition(BEGIN)[2].partition(END)[0]


def document(page: Path, text: str) -> None:
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, f"{page} has no beginning of the table"
    assert end, f"{page} has no end of the table"
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
