"""Rally's scenarios of servers over HTTP, unchanged: against a minova of its own, or against any cloud.

    python -m tests.conformance.rally [--rally FOLDER] [--environment] [--args NAME=VALUE,...] [FILE]

An extra: the first run installs Rally in an environment of its own. `tox -e rally` runs it. FILE: a task of Rally, by default
servers.yaml. --environment: the cloud that the OS_* variables name, with its administrator; Rally makes projects and users there,
and deletes them. Else minova's real services over RabbitMQ and PostgreSQL, with a fake driver, a Keystone and a Glance from their
packages. Prints Rally's tables: for each step the minimum, median, 90th and 95th percentile, maximum, average, success and count.
Exit code 0: each agreed level of service (`sla`) of the task holds.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.conformance.tempest.cloud import cloud
from tests.servers.keystone import PASSWORD, REGION

# rally-openstack needs a rally of its own time.
PACKAGES = ("rally==5.1.1", "rally-openstack==4.1.0")
TASK = Path(__file__).with_name("servers.yaml")
DEFAULT = Path(__file__).parents[3] / ".tox" / "rally-packages"
ADMIN = {
    "username": "admin",
    "password": PASSWORD,
    "project_name": "admin",
    "user_domain_name": "Default",
    "project_domain_name": "Default",
}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.rally", description=__doc__)
    parser.add_argument("--rally", type=Path, default=DEFAULT, help="where Rally is put, or is already")
    parser.add_argument("--environment", action="store_true", help="the cloud that the OS_* variables name")
    parser.add_argument("--args", default="", help="of the task: NAME=VALUE,...")
    parser.add_argument("file", type=Path, nargs="?", default=TASK)
    options = parser.parse_args(arguments)
    program = installed(options.rally)
    words = dict(word.split("=", 1) for word in options.args.split(",") if word)
    with tempfile.TemporaryDirectory(prefix="rally") as name:
        rally = Rally(program, Path(name))
        with contextlib.nullcontext(None) if options.environment else own_cloud() as spec:
            rally.use(spec)
            started = rally("task", "start", str(options.file), "--task-args", json.dumps(words), check=False)
            # Says which levels of service hold.
            return rally("task", "sla-check", check=False) or started


@contextlib.contextmanager
def own_cloud() -> Iterator[dict[str, Any]]:
    """As Rally describes clouds."""
    with cloud() as new_cloud:
        yield {"existing@openstack": {"auth_url": new_cloud.keystone, "region_name": REGION, "admin": ADMIN}}


class Rally:
    """The program, with a database in `folder`."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._conf = folder / "rally.conf"
        self._conf.write_text(f"[database]\nconnection = sqlite:///{folder}/rally.sqlite\n")

    def __call__(self, *words: str, check: bool = True) -> int:
        """Its exit code."""
        # HOME: there it keeps which cloud and which task it was asked about last.
        environment = {**os.environ, "HOME": str(self._folder), "PYTHONWARNINGS": "ignore"}
        environment.pop("PYTHONPATH", None)
        command = [str(self._program), "--config-file", str(self._conf), *words]
        return subprocess.run(command, env=environment, check=check).returncode

    def use(self, spec: dict[str, Any] | None) -> None:
        """The cloud of the OS_* variables, if there is no other."""
        self("db", "create")
        if spec is None:
            self("env", "create", "--name", "cloud", "--from-sysenv")
            return
        file = self._folder / "cloud.json"
        file.write_text(json.dumps(spec))
        self("env", "create", "--name", "minova", "--spec", str(file))


def installed(folder: Path) -> Path:
    program = folder / "bin" / "rally"
    if not program.exists():
        print(f"Installing {' '.join(PACKAGES)} in {folder}", flush=True)
        venv.create(folder, with_pip=True)
        subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "install", "-q", *PACKAGES], check=True)
    return program


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
