"""Apache Libcloud's driver for OpenStack over HTTP, against the cloud of the Tempest run.

    python -m tests.conformance.libcloud [--libcloud PYTHON]

An extra: the first run installs Libcloud in an environment of its own. `tox -e libcloud` runs it. Exit code 0: each call
succeeds, or fails for its reason in program.py.
"""

import argparse
import logging
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.tempest.cloud import cloud
from tests.servers.keystone import PASSWORD, REGION

LIBCLOUD = "3.9.1"
PROGRAM = Path(__file__).with_name("program.py")
DEFAULT = Path(__file__).parents[3] / ".tox" / "libcloud-packages"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.libcloud", description=__doc__)
    parser.add_argument("--libcloud", type=Path, help="an interpreter that has Libcloud already")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    python = options.libcloud or installed()
    with cloud() as new_cloud:
        words = [str(python), "-W", "ignore", str(PROGRAM), new_cloud.keystone, PASSWORD, REGION]
        return subprocess.run(words, timeout=1200).returncode


def installed() -> Path:
    python = DEFAULT / "bin" / "python"
    if not python.exists():
        print(f"Installing Apache Libcloud {LIBCLOUD} in {DEFAULT}", flush=True)
        venv.create(DEFAULT, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", f"apache-libcloud=={LIBCLOUD}"], check=True)
    return python


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
