"""Nova's own API samples, over HTTP against minova: each template of Nova's functional tests, microversion by microversion.

    python -m tests.conformance.api_samples [--nova PYTHON] [--folder FOLDER] [--document] [--results FILE]
        [--processes N] [WORD...]

An extra: the first run installs Nova in an environment of its own. `tox -e api-samples` runs it. WORD: only tests with it in
their names. --document: write the table into docs/reference/compatibility.md. Exit code 0: nothing failed without a reason in
reasons.py.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.api_samples.report import FAILED, outcomes, table
from tests.conformance.api_samples.run import run_all
from tests.conformance.environment import install, python_of

HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent
DEFAULT = ROOT / ".tox" / "nova"
PAGE = ROOT / "docs" / "reference" / "compatibility.md"
BEGIN, END = "<!-- Made by tox -e api-samples. -->\n", "<!-- End of the samples. -->"
# What Nova's tests import, which its package does not require.
PACKAGES = ("ddt", "oslotest", "requests-mock", "testscenarios", "testtools", "wsgi-intercept", "openstack-placement")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.api_samples", description=__doc__)
    parser.add_argument("--nova", type=Path, help="an interpreter that has Nova 34 and what its tests need already")
    parser.add_argument("--folder", type=Path, default=DEFAULT, help="where Nova is put")
    parser.add_argument("--document", action="store_true", help=f"write the table into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--results", type=Path, help="write what each test said, one JSON object a line")
    parser.add_argument("--processes", type=int, default=3, help="how many clouds at once (3)")
    parser.add_argument("words", nargs="*", metavar="WORD")
    options = parser.parse_args(arguments)
    python = options.nova or installed(options.folder)
    (options.results or Path("/dev/null")).write_text("")
    templates, tests = run_all(python, options.words, options.results, options.processes)
    sample_outcomes = outcomes(templates, tests)
    if options.words:
        used = {template for test in tests for template in test["templates"]}
        sample_outcomes = [outcome for outcome in sample_outcomes if outcome.template in used]
    for outcome in sample_outcomes:
        if outcome.kind == FAILED:
            print(f"FAILED {outcome.template}: {outcome.reason}")
    print(table(sample_outcomes))
    if options.document:
        document(PAGE, table(sample_outcomes))
    return int(any(outcome.kind == FAILED for outcome in sample_outcomes))


def installed(folder: Path) -> Path:
    python = python_of(folder)
    probe = (
        subprocess.run([str(python), "-c", "import testscenarios"], capture_output=True) if python.exists() else None
    )
    if probe is None or probe.returncode:
        install(folder, *PACKAGES)
    return python


def document(page: Path, text: str) -> None:
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, f"{page} has no beginning of the table"
    assert end, f"{page} has no end of the table"
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
