"""What listings and `show` of servers take over HTTP, with many servers and their history in PostgreSQL.

Servers with their history in ten projects; rounds of each question by one client, one after the other, an administrator's and a
project's. The CPU time of the API for one answer stands beside: other load changes it less than the time by the clock.
"""

import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import urllib3
from sqlalchemy import insert, text
from sqlalchemy.orm import Session

from minova.db.engine import Database
from minova.db.models import Instance, InstanceAction
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.states import PowerState, VmState
from tests.benchmarks.boots.__main__ import HTTP, cpu_seconds
from tests.benchmarks.command_line import Option, parse
from tests.integration.deployment import Deployment
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ
from tests.waiting import wait_for

PROJECTS = 10
TOKEN = {"X-Auth-Token": "admin:project-0"}
AT = datetime.now(UTC).replace(tzinfo=None)
FLAVOR = Flavor(flavorid="1", name="m1.small", vcpus=1, memory_mb=512, root_gb=10, extra_specs={"hw:boot_menu": "true"})
NOBODY_ID = "00000000-0000-4000-8000-000000000001"


def fill(url: str, servers: int, history: int) -> None:
    """The first server is written as all servers are, and the others are like it."""
    db = Database(url)
    with Session(db.engine) as session, session.begin():
        first: dict[str, Any] = {
            "uuid": NOBODY_ID,
            "display_name": "server",
            "hostname": "server",
            "project_id": "project-0",
            "user_id": "user",
            "flavor": FLAVOR,
            "image_ref": NOBODY_ID,
            "vm_state": VmState.ACTIVE.value,
            "power_state": int(PowerState.RUNNING),
            "host": "host-0",
            "node": "host-0",
            "availability_zone": "nova",
            "attempt": 1,
            "reservation_id": "r-0",
            "metadata_": {"role": "web"},
            "created_at": AT,
            "launched_at": AT,
        }
        session.execute(insert(Instance), [first])
        numbered = {
            "uuid": "gen_random_uuid()::text",
            "display_name": "'server-' || n",
            "hostname": "'server-' || n",
            "project_id": f"'project-' || n % {PROJECTS}",
            "host": "'host-' || n % 1000",
            "node": "'host-' || n % 1000",
        }
        names = [column.name for column in Instance.__table__.columns if column.name != "id"]
        values = ", ".join(numbered.get(name, f'"{name}"') for name in names)
        columns = ", ".join(f'"{name}"' for name in names)
        session.execute(
            text(
                f"INSERT INTO instances ({columns}) SELECT {values} FROM instances, generate_series(1, {servers - 1}) n"
            )
        )
        fields = "instance_uuid, action, request_id, user_id, project_id, start_time, finish_time, result"
        session.execute(
            text(
                f"INSERT INTO {InstanceAction.__tablename__} ({fields}) SELECT uuid, 'reboot', 'req-' || id || '-' || n, user_id, "
                f"project_id, created_at, created_at, 'Success' FROM instances, generate_series(1, {history}) n"
            )
        )
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))
    db.close()


def took(url: str, path: str, rounds: int, expected: int | None) -> list[float]:
    """Seconds of each of so many questions, whose answer has so many servers; after one that warms up."""
    times = []
    for number in range(rounds + 1):
        begun = time.perf_counter()
        answer = HTTP.request("GET", url + path, headers=TOKEN)
        body = answer.data
        times.append(time.perf_counter() - begun)
        assert answer.status == 200, body
        if number == 0 and expected is not None:
            assert len(answer.json()["servers"]) == expected
    return times[1:]


def answers(url: str) -> bool:
    try:
        return bool(HTTP.request("GET", url, retries=False).status < 500)
    except urllib3.exceptions.HTTPError:
        return False


def measure(url: str, pid: int, servers: int, rounds: int) -> None:
    wait_for("the API", lambda: answers(url))
    page = HTTP.request("GET", f"{url}/v2.1/servers?limit=1000&sort_key=display_name", headers=TOKEN).json()["servers"]
    middle = page[len(page) // 2]["id"]
    large = min(1000, servers)
    questions: list[tuple[str, str, int | None]] = [
        ("list of 50", "/v2.1/servers?limit=50", 50),
        ("list of 50, with details", "/v2.1/servers/detail?limit=50", 50),
        ("list of 50 from the middle, with details", f"/v2.1/servers/detail?limit=50&marker={middle}", None),
        ("list of 50 of all projects, with details", "/v2.1/servers/detail?limit=50&all_tenants=1", 50),
        (f"list of {large}", f"/v2.1/servers?limit={large}&all_tenants=1", large),
        (f"list of {large}, with details", f"/v2.1/servers/detail?limit={large}&all_tenants=1", large),
        ("show", f"/v2.1/servers/{middle}", None),
        ("show of its actions", f"/v2.1/servers/{middle}/os-instance-actions", None),
    ]
    print("| question | median ms | p99 ms | CPU ms of the API |\n| --- | --- | --- | --- |")
    for name, path, expected in questions:
        before = cpu_seconds({"api": pid})["api"]
        times = sorted(took(url, path, rounds, expected))
        cpu = (cpu_seconds({"api": pid})["api"] - before) / (rounds + 1) * 1000
        p99 = times[int(len(times) * 0.99)]
        print(f"| {name} | {median(times) * 1000:.1f} | {p99 * 1000:.1f} | {cpu:.1f} |", flush=True)


def main() -> None:
    arguments = parse(
        "listings",
        __doc__,
        Option("servers", 100_000, 500, "servers of all projects"),
        Option("actions", 10, 1, "of each server's history"),
        Option("rounds", 100, 1, "of each question"),
    )
    servers, history = arguments.servers, arguments.actions
    with RabbitMQ() as rabbit, PostgreSQL() as database, tempfile.TemporaryDirectory() as name:
        url = database.fresh_url()
        with Deployment(Path(name), rabbit.fresh_url(), url, DEFAULT={"debug": "false"}) as deployment:
            deployment.manage("db", "upgrade")
            begun = time.monotonic()
            fill(url, servers, history)
            print(f"{servers} servers and {servers * history} actions written in {time.monotonic() - begun:.0f} s")
            deployment.start()
            measure(deployment.url, deployment.services["api"].pid, servers, arguments.rounds)


if __name__ == "__main__":
    main()
