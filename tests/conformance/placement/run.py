"""OpenStack Placement's own functional API tests, over HTTP against minova-placement-api, each file on a new database.

    python -m tests.conformance.placement.run [--server PROGRAM] [--table FILE] [--verbose] [FILE...]

Runs where openstack-placement and gabbi are installed (`tox -e placement`); nothing of theirs stands here. The server is
minova's own program from its own environment. FILE: names without .yaml; default, all that need no policy files.
Exit code 0: nothing failed that REASONS does not explain.
"""

import argparse
import contextlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gabbi import handlers, suitemaker, utils

from tests.conformance.placement import fixtures

ROOT = Path(__file__).resolve().parents[3]
SERVER = ROOT / ".venv/bin/minova-placement-api"
POLICIES = ("-policy", "-rbac")
CORS = "[cors]\nallowed_origin = http://valid.example.com\nallow_headers = openstack-api-version\n"
# What does not pass, and why: {file: {test: reason}}.
REASONS: dict[str, dict[str, str]] = {
    "basic-http": {
        "bad content length not int": "gabbi's HTTP client refuses to send such a header; tests/functional/api/placement does"
    },
}


class Result(NamedTuple):
    """Of one file. `failed`: {test: what was said}."""

    file: str
    passed: int
    failed: dict[str, str]
    skipped: int

    @property
    def unexplained(self) -> set[str]:
        return set(self.failed) - set(REASONS.get(self.file, {}))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.conformance.placement.run", description=__doc__)
    parser.add_argument("--server", default=str(SERVER))
    parser.add_argument("--table", type=Path, help="write the figures of each file as a Markdown table")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args(arguments)
    folder = gabbits()
    results = []
    for name in options.files or all_files(folder):
        results.append(run_file(options.server, folder, name))
        print(line(results[-1]), flush=True)
        for test, said in results[-1].failed.items():
            reason = REASONS.get(results[-1].file, {}).get(test, "")
            print(f"    FAILED {test}: {reason}" + (f"\n{said}" if options.verbose else ""), flush=True)
    print(f"all: {sum(r.passed for r in results)} passed, {sum(len(r.failed) for r in results)} failed", end="")
    print(f", {sum(r.skipped for r in results)} skipped, in {len(results)} files")
    if options.table is not None:
        options.table.write_text(table(results))
    return int(any(result.unexplained for result in results))


def line(result: Result) -> str:
    return f"{result.file}: {result.passed} passed, {len(result.failed)} failed, {result.skipped} skipped"


def table(results: Sequence[Result]) -> str:
    rows = [f"| {r.file} | {r.passed} | {len(r.failed)} | {r.skipped} |" for r in results]
    return "\n".join(["| file | passed | failed | skipped |", "| --- | ---: | ---: | ---: |", *rows]) + "\n"


def gabbits() -> Path:
    """Where the package keeps them; it is not imported."""
    spec = importlib.util.find_spec("placement")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("openstack-placement is not installed here")
    return Path(next(iter(spec.submodule_search_locations))) / "tests/functional/gabbits"


def all_files(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.yaml") if not path.stem.endswith(POLICIES))


def run_file(server: str, folder: Path, name: str) -> Result:
    document = utils.load_yaml(yaml_file=str(folder / f"{name}.yaml"))
    with serving(server, "CORSFixture" in document.get("fixtures", ())) as url:
        os.environ[fixtures.SERVER] = url
        suite = suite_of(document, folder, name, int(url.rpartition(":")[2]))
        outcome = unittest.TestResult()
        suite.run(outcome)
    wrong = {test_name(test): said for test, said in [*outcome.failures, *outcome.errors]}
    skipped = len(outcome.skipped)
    return Result(name, suite.countTestCases() - len(wrong) - skipped, wrong, skipped)


def suite_of(document: Any, folder: Path, name: str, port: int) -> Any:
    return suitemaker.test_suite_from_dict(
        unittest.TestLoader(),
        name,
        document,
        str(folder),
        "127.0.0.1",
        port,
        fixtures,
        None,
        handlers=[handler() for handler in handlers.RESPONSE_HANDLERS],
    )


def test_name(test: Any) -> str:
    """As the file has it."""
    return str(test.test_data["name"]) if hasattr(test, "test_data") else str(test)


@contextlib.contextmanager
def serving(program: str, with_cors: bool) -> Iterator[str]:
    """A new server's URL; it and its database are gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--dev", "--port", "0"]
        if with_cors:
            options = Path(folder) / "cors.conf"
            options.write_text(CORS)
            command += ["--config-file", str(options)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            url = _url(process)
            # What it logs from now on is read too, or it would wait for that at last.
            threading.Thread(target=process.communicate, daemon=True).start()
            yield url
        finally:
            process.terminate()
            process.wait(timeout=30)


def _url(process: "subprocess.Popen[str]") -> str:
    """From the line that says it is ready; its log lines come there too."""
    lines = []
    for text in process.stdout or ():
        url_match = re.search(r"is ready: (http://\S+)", text)
        if url_match is not None:
            return url_match[1]
        lines.append(text)
    raise SystemExit(f"the server did not start: {''.join(lines)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
