"""The procedure of docs/operators/backup.md with separate processes: an older dump is restored, and nothing that runs dies."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from tests.integration import preloaded
from tests.integration.deployment import Deployment
from tests.servers.postgresql import newest
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(900)
HOST = "hv1"
PAGE = Path(__file__).parents[2] / "docs/operators/backup.md"
CONTROLLERS = ("api", "scheduler", "conductor")


class Shell:
    """Runs commands of the page on a database that has another name and place than there."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        parts = make_url(url)
        self.kind = parts.get_backend_name()
        self._database = str(parts.database)
        self._environment = {**os.environ, "HOME": str(folder)}
        if self.kind == "postgresql":
            self._environment |= {"PGHOST": str(parts.host), "PGPORT": str(parts.port), "PGUSER": str(parts.username)}
            self._environment |= {"PGPASSWORD": str(parts.password or "")}
            self._environment["PATH"] = f"{Path(newest('pg_dump')).parent}:{os.environ['PATH']}"
        if self.kind == "mysql":
            login = f"[client]\nhost={parts.host}\nport={parts.port}\nuser={parts.username}\n"
            (folder / ".my.cnf").write_text(login + (f"password={parts.password}\n" if parts.password else ""))

    def run(self, heading: str) -> None:
        """The command of this column, in the row of the database."""
        row = {"postgresql": "PostgreSQL", "mysql": "MariaDB", "sqlite": "SQLite"}[self.kind]
        table = PAGE.read_text().partition(f"| database | {heading}")[2]
        command = re.findall(rf"^ *\| {row}[^|]*\| `(.*)` \|$", table, re.MULTILINE)[0]
        if self.kind == "sqlite":
            command = command.replace("/var/lib/minova/minova.sqlite", self._database)
        else:
            command = re.sub(r"(?<= )minova(?= |$)", self._database, command)
        # The databases of the tests have users of their own. tests/operators types the commands as they stand.
        command = re.sub(r"\bsudo (-u \w+ )?", "", command)
        subprocess.run(command, shell=True, check=True, cwd=self._folder, env=self._environment, timeout=300)


@pytest.fixture(
    params=[
        "postgresql",
        pytest.param(
            "mariadb",
            marks=pytest.mark.nightly("it needs mariadb-client, which tools/setup packages installs"),
        ),
        pytest.param("sqlite", marks=pytest.mark.nightly("as PostgreSQL, but for its commands")),
    ]
)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/minova.sqlite"
    return str(request.getfixturevalue(f"fresh_{request.param}_url")())


@pytest.fixture
def cloud(tmp_path: Path, fresh_rabbit_url: Callable[[], str], database_url: str) -> Iterator[Deployment]:
    with Deployment(tmp_path, fresh_rabbit_url(), database_url, DEFAULT={"service_down_time": 60}) as deployment:
        deployment.compute(HOST, DEFAULT={"compute_driver": "fake", "fake_persistent": "true"})
        deployment.manage("db", "upgrade")
        deployment.start()
        deployment.wait_up(timeout=180)
        deployment.cli("flavor", "create", "tiny", "--ram", "128", "--disk", "1", "--vcpus", "1")
        yield deployment


def make(cloud: Deployment, folder: Path, name: str) -> str:
    """An image of this name, and a server that runs from it."""
    (folder / name).write_bytes(b"\1" * 512)
    cloud.cli("image", "create", name, "--file", str(folder / name), "--disk-format", "raw")
    cloud.cli("server", "create", name, "--flavor", "tiny", "--image", name)
    return str(cloud.wait_status(name, "ACTIVE", timeout=180)["id"])


def recovery(cloud: Deployment, *options: str) -> Any:
    return preloaded.run(["minova-manage", "--config-file", cloud.conf_file, "recovery", *options])


@pytest.mark.nightly("a minute and a half; tests/faults/test_restored_database.py restores backups each day")
def test_an_older_dump_is_restored(cloud: Deployment, database_url: str, tmp_path: Path) -> None:
    first, shell = make(cloud, tmp_path, "first"), Shell(tmp_path, database_url)
    shell.run("back up")
    second = make(cloud, tmp_path, "second")
    images = {path.name for path in (tmp_path / "controller" / "state" / "images").iterdir()}
    for name in CONTROLLERS:
        cloud.services[name].stop()
    shell.run("restore")
    for name in reversed(CONTROLLERS):
        cloud.services[name].start()

    wait_for("the CLI warns", lambda: "safe mode" in cloud.cli("server", "list", check=False), 180)
    refused = cloud.cli("server", "delete", first, check=False)
    assert "Safe mode" in refused

    def shown() -> str:
        done = recovery(cloud)
        assert done.returncode == 1, done.stderr
        text = str(done.stdout)
        return text if second in text and "No report yet" not in text and text.count("image ") else ""

    text = wait_for("host and image store have reported", shown, 240)
    assert first not in text
    done = recovery(cloud, "--apply")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    for name, uuid in (("first", first), ("second", second)):
        assert cloud.wait_status(name, "ACTIVE", timeout=180)["id"] == uuid
    wait_for("changes are taken", lambda: "safe mode" not in cloud.cli("server", "list", check=False), 120)
    assert {path.name for path in (tmp_path / "controller" / "state" / "images").iterdir()} >= images
    cloud.cli("server", "stop", "second")
    cloud.wait_status("second", "SHUTOFF", timeout=180)
    make(cloud, tmp_path, "third")
    assert recovery(cloud).returncode == 0
