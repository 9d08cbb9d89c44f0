"""What a listing of servers takes with a token of a real Keystone."""

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

import urllib3
from sqlalchemy import insert
from sqlalchemy.orm import Session

from minova.db.engine import Database
from minova.db.models import Instance
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.states import PowerState, VmState
from tests.benchmarks.command_line import Option, parse
from tests.benchmarks.listings.__main__ import AT
from tests.cluster import Cluster
from tests.integration.keystone.conftest import OPTIONS
from tests.servers.keystone import PASSWORD, Keystone, of_project

FLAVOR = Flavor(flavorid="1", name="m1.small", vcpus=1, memory_mb=512, root_gb=10)


def fill(db: Database, servers: int, project: str) -> None:
    values: dict[str, Any] = {
        "display_name": "server",
        "hostname": "server",
        "project_id": project,
        "user_id": "user",
        "flavor": FLAVOR,
        "image_ref": str(uuid4()),
        "vm_state": VmState.ACTIVE.value,
        "power_state": int(PowerState.RUNNING),
        "host": "h1",
        "node": "h1",
        "attempt": 1,
        "reservation_id": "r-0",
        "metadata_": {},
        "created_at": AT,
        "launched_at": AT,
    }
    with Session(db.engine) as session, session.begin():
        session.execute(insert(Instance), [values | {"uuid": str(uuid4())} for _ in range(servers)])


def took(url: str, token: str, servers: int) -> float:
    """Milliseconds."""
    started = time.monotonic()
    answer = urllib3.request("GET", url, headers={"X-Auth-Token": token})
    milliseconds = (time.monotonic() - started) * 1000
    assert len(answer.json()["servers"]) == servers, answer.data
    return milliseconds


def main() -> None:
    arguments = parse(
        "tokens",
        __doc__,
        Option("servers", 50, 2, "of the project"),
        Option("rounds", 50, 2, "with a token that is known"),
    )
    servers, rounds = arguments.servers, arguments.rounds
    with tempfile.TemporaryDirectory() as name, Keystone() as keystone:
        folder = Path(name)
        keystone.add_project("service")
        keystone.add_user("minova", service="service")
        file = folder / "minova.conf"
        text = OPTIONS.replace("https://cloud.example.org:5000/v3", keystone.url)
        file.write_text(text.replace("SERVICE_PASSWORD", PASSWORD))
        with Cluster(folder / "cloud", [], files=[str(file)]) as cloud:
            fill(cloud.db, servers, keystone.id_of("projects", "admin"))
            for path in ("/v2.1/servers", "/v2.1/servers/detail"):
                token = keystone.token(scope=of_project("admin"))
                first = took(cloud.url + path, token, servers)
                later = [took(cloud.url + path, token, servers) for _ in range(rounds)]
                print(
                    f"{path}: {servers} servers, new token {first:.0f} ms, known token {median(later):.0f} ms",
                    flush=True,
                )


if __name__ == "__main__":
    main()
