"""`/os-migrations` and `/servers/{id}/migrations`: filters, pages and fields of each microversion, over rows of migrations."""

import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import bcrypt
import msgspec
import pytest

from minova.db.servers import migrations
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.live_migration import LivePhase, LiveProgress
from minova.objects.servers.migration import Migration, MigrationType
from tests.functional.api.conftest import Cloud, at
from tests.unit.api.access.test_auth import basic

PATH = "/v2.1/os-migrations"
START = datetime(2026, 3, 1, 12)  # noqa: DTZ001  - as the database keeps times
NEWEST = at("2.104")
NO_UUID = "00000000-0000-4000-8000-000000000000"
COLUMNS = {
    *("id", "instance_uuid", "status", "source_compute", "source_node", "dest_compute", "dest_node", "dest_host"),
    *("old_instance_type_id", "new_instance_type_id", "created_at", "updated_at"),
}


class World(NamedTuple):
    """A server with three migrations: a live one in progress, a finished cold one, a resize in progress; in this order."""

    cloud: Cloud
    server: str
    uuids: tuple[str, str, str]

    def listed(self, query: str, version: str = "2.104") -> list[str]:
        """The numbers of the migrations, in the order of the answer."""
        listing = self.cloud.get(f"{PATH}{query}", **at(version))["migrations"]
        return [str(self.uuids.index(each["uuid"])) if "uuid" in each else str(each["id"] - 1) for each in listing]


def add(cloud: Cloud, server: str, kind: MigrationType, status: str, hour: int, dest: str) -> str:
    flavor = Flavor(flavorid=cloud.server["flavorRef"], name="tiny", vcpus=1, memory_mb=128, root_gb=1)
    migration = Migration(
        uuid=str(uuid.uuid4()),
        instance_uuid=server,
        migration_type=kind,
        status=status,
        source_compute="a",
        source_node="node-a",
        dest_compute=dest,
        dest_node=f"node-{dest}",
        old_flavor=Flavor(flavorid="gone", name="gone", vcpus=1, memory_mb=1, root_gb=1),
        new_flavor=flavor,
    )
    with cloud.db.write() as session:
        migrations.add(session, migration, START + timedelta(hours=hour), cloud.db.now())
    return migration.uuid


@pytest.fixture
def world(stocked: Cloud) -> World:
    server = stocked.make_server()["id"]
    uuids = (
        add(stocked, server, MigrationType.LIVE_MIGRATION, "migrating", 0, "b"),
        add(stocked, server, MigrationType.MIGRATION, "confirmed", 1, "c"),
        add(stocked, server, MigrationType.RESIZE, "migrating", 2, "b"),
    )
    return World(stocked, server, uuids)


def test_fields_of_each_microversion(world: World) -> None:
    get = world.cloud.get
    first, last = get(PATH)["migrations"][0], get(PATH, **NEWEST)["migrations"][-1]
    assert first.keys() == COLUMNS
    assert (first["id"], first["source_compute"], first["source_node"]) == (1, "a", "node-a")
    assert (first["dest_compute"], first["dest_node"], first["dest_host"]) == ("b", "node-b", None)
    assert (first["old_instance_type_id"], first["new_instance_type_id"]) == (None, 1)
    assert first["created_at"] == first["updated_at"] == "2026-03-01T12:00:00.000000"
    assert get(PATH, **at("2.23"))["migrations"][0].keys() == COLUMNS | {"migration_type", "links"}
    assert get(PATH, **at("2.23"))["migrations"][1].keys() == COLUMNS | {"migration_type"}
    assert get(PATH, **at("2.59"))["migrations"][-1].keys() == COLUMNS | {"migration_type", "links", "uuid"}
    assert last.keys() == COLUMNS | {"migration_type", "links", "uuid", "user_id", "project_id"}
    server = get(f"/v2.1/servers/{world.server}")["server"]
    assert (last["project_id"], last["user_id"]) == (server["tenant_id"], server["user_id"])
    assert last["links"][0]["href"].endswith(f"/v2.1/servers/{world.server}/migrations/1")


def test_status_of_a_live_migration_in_progress_is_novas_word(world: World) -> None:
    listing = world.cloud.get(PATH)["migrations"]
    assert [each["status"] for each in listing] == ["running", "confirmed", "migrating"]
    assert world.listed("?status=running") == ["0"]
    assert world.listed("?status=migrating") == ["2"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", "210"),
        ("?status=confirmed", "1"),
        ("?migration_type=resize", "2"),
        ("?host=b", "20"),
        ("?host=a", "210"),
        ("?source_compute=b", ""),
        ("?host=x", ""),
        ("?hidden=false", "210"),
        ("?hidden=1", ""),
        ("?changes-since=2026-03-01T13:00:00", "21"),
        ("?changes-before=2026-03-01T13:00:00Z", "10"),
        ("?changes-since=2026-03-01T13:00:00&changes-before=2026-03-01T13:30:00", "1"),
        (f"?instance_uuid={NO_UUID}", ""),
        ("?project_id=other", ""),
        ("?user_id=other", ""),
    ],
)
def test_filters(world: World, query: str, found: str) -> None:
    assert world.listed(query) == [*found]


def test_filters_of_later_microversions_are_ignored_before_2_59_and_refused_then(world: World) -> None:
    for query in ("?changes-since=2027-01-01T00:00:00", "?limit=1", "?user_id=other", "?rain=1"):
        assert world.listed(query, "2.58") == ["0", "1", "2"]
    for query, version in (
        ("?changes-before=2027-01-01T00:00:00", "2.65"),
        ("?user_id=other", "2.79"),
        ("?rain=1", "2.59"),
        ("?limit=-1", "2.59"),
        ("?changes-since=yesterday", "2.59"),
        ("?changes-since=2026-03-02T00:00:00&changes-before=2026-03-01T00:00:00", "2.66"),
        (f"?marker={NO_UUID}", "2.59"),
    ):
        assert world.cloud.ask("GET", f"{PATH}{query}", **at(version))[0] == 400, query


def test_pages_from_the_newest(world: World) -> None:
    page = world.cloud.get(f"{PATH}?limit=2&host=a", **NEWEST)
    assert [each["id"] for each in page["migrations"]] == [3, 2]
    (link,) = page["migrations_links"]
    assert link["rel"] == "next"
    assert link["href"].endswith(f"{PATH}?host=a&limit=2&marker={world.uuids[1]}")
    rest = world.cloud.get(f"{PATH}?limit=2&marker={world.uuids[1]}", **NEWEST)
    assert [each["id"] for each in rest["migrations"]] == [1]
    assert "migrations_links" not in rest


def test_live_migrations_of_a_server_in_progress(world: World) -> None:
    path = f"/v2.1/servers/{world.server}/migrations"
    assert world.cloud.ask("GET", path, **at("2.22"))[0] == 404
    (listed,) = world.cloud.get(path, **at("2.23"))["migrations"]
    assert listed == world.cloud.get(f"{path}/1", **at("2.23"))["migration"]
    assert (listed["id"], listed["server_uuid"], listed["status"]) == (1, world.server, "running")
    assert (listed["memory_total_bytes"], listed["disk_remaining_bytes"]) == (None, None)
    assert {"uuid", "user_id", "project_id"}.isdisjoint(listed)
    newest = world.cloud.get(f"{path}/1", **NEWEST)["migration"]
    assert newest.keys() - listed.keys() == {"uuid", "user_id", "project_id"}
    for number, text in (
        ("2", "is not live-migration"),
        ("9", "is not found"),
        ("x", "is not found"),
        ("9" * 30, "is not found"),
    ):
        status, answer = world.cloud.ask("GET", f"{path}/{number}", **NEWEST)
        assert (status, text in answer["itemNotFound"]["message"]) == (404, True), answer


def test_live_migration_that_has_ended_is_not_shown(world: World) -> None:
    ended = add(world.cloud, world.server, MigrationType.LIVE_MIGRATION, "completed", 3, "b")
    path = f"/v2.1/servers/{world.server}/migrations"
    assert len(world.cloud.get(path, **NEWEST)["migrations"]) == 1
    status, answer = world.cloud.ask("GET", f"{path}/4", **NEWEST)
    assert (status, "is not in progress" in answer["itemNotFound"]["message"]) == (404, True)
    assert world.cloud.get(PATH, **NEWEST)["migrations"][0]["uuid"] == ended


# -- managers of a project ---------------------------------------------------------------------------------------------


@pytest.fixture
def manager(world: World, tmp_path: Path) -> Iterator[Callable[[str], tuple[int, Any]]]:
    """Asks the same cloud as a manager of the project whose server it is."""
    project = world.cloud.get(f"/v2.1/servers/{world.server}")["server"]["tenant_id"]
    file = tmp_path / "htpasswd"
    password = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    file.write_text(f"mary:{password}\nmike:{password}\n")
    cloud = Cloud(
        tmp_path,
        auth_strategy="http_basic",
        http_basic_auth_user_file=str(file),
        admin_users=["root"],
        user_roles=[f"mary:{project}:manager", "mike:other:manager"],
    )

    def ask(path: str, user: str = "mary") -> tuple[int, Any]:
        headers = {"Authorization": basic(f"{user}:secret".encode()), **NEWEST["headers"]}
        return cloud.ask("GET", path, headers=headers)

    yield ask
    cloud.close()


def test_managers_see_migrations_of_their_project_without_hosts(world: World, manager: Callable[..., Any]) -> None:
    project = world.cloud.get(f"/v2.1/servers/{world.server}")["server"]["tenant_id"]
    for refused in (PATH, f"{PATH}?project_id=elsewhere"):
        assert manager(refused)[0] == 403
    status, answer = manager(f"{PATH}?project_id={project}&limit=1")
    assert (status, [each["id"] for each in answer["migrations"]]) == (200, [3])
    hosts = ("source_compute", "source_node", "dest_compute", "dest_node", "dest_host")
    assert [answer["migrations"][0][name] for name in hosts] == [None] * 5
    (live,) = manager(f"/v2.1/servers/{world.server}/migrations")[1]["migrations"]
    assert set(hosts).isdisjoint(live)
    assert manager(f"/v2.1/servers/{world.server}/migrations/1")[0] == 403


def test_managers_of_other_projects_see_nothing(world: World, manager: Callable[..., Any]) -> None:
    assert manager(f"{PATH}?project_id=other", "mike") == (200, {"migrations": []})
    assert manager(f"{PATH}?project_id=other&marker={world.uuids[0]}", "mike")[0] == 400
    assert manager(f"/v2.1/servers/{world.server}/migrations", "mike")[0] == 404


# -- what users do with a migration in progress ------------------------------------------------------------------------


def place(world: World, number: int = 1) -> str:
    return f"/v2.1/servers/{world.server}/migrations/{number}"


def force(world: World, number: int, version: str) -> tuple[int, Any]:
    body = {"force_complete": None}
    return world.cloud.ask("POST", f"{place(world, number)}/action", body, headers=at(version)["headers"])


def abort(world: World, number: int, version: str) -> tuple[int, Any]:
    return world.cloud.ask("DELETE", place(world, number), headers=at(version)["headers"])


def migrate(world: World, status: str = "migrating", task_state: str | None = "migrating") -> None:
    world.cloud.conductor.edit(world.server, task_state=task_state)
    with world.cloud.db.write() as session:
        live = migrations.find(session, world.uuids[0])
        assert live is not None
        changed = msgspec.structs.replace(live, status=status)
        migrations.write(session, changed, START, world.cloud.db.now())


def test_a_running_migration_is_aborted_or_forced(world: World) -> None:
    migrate(world)
    assert abort(world, 1, "2.24") == (202, None)
    assert force(world, 1, "2.22") == (202, None)
    assert world.cloud.conductor.ordered == [("cancel", world.uuids[0]), ("force complete", world.uuids[0])]


@pytest.mark.parametrize(
    ("status", "version", "expected"),
    [
        ("queued", "2.64", 400),
        ("queued", "2.65", 202),
        ("pre-migrating", "2.64", 400),
        ("pre-migrating", "2.65", 202),
        ("accepted", "2.65", 400),
        ("post-migrating", "2.65", 400),
        ("migrating", "2.23", 404),
    ],
)
def test_a_migration_that_waits_is_aborted_from_2_65_on(world: World, status: str, version: str, expected: int) -> None:
    migrate(world, status)
    assert abort(world, 1, version)[0] == expected
    assert len(world.cloud.conductor.ordered) == (expected == 202)


def test_only_a_running_migration_is_forced(world: World) -> None:
    migrate(world, "queued")
    code, answer = force(world, 1, "2.104")
    text = f"Migration 1 state of instance {world.server} is queued. Cannot force complete while the migration is in this state."
    assert (code, answer["badRequest"]["message"]) == (400, text)
    assert force(world, 77, "2.104")[0] == 400
    assert abort(world, 77, "2.104")[0] == 404
    assert force(world, 1, "2.21")[0] == 404


def test_a_server_that_does_not_migrate_is_a_conflict(world: World) -> None:
    migrate(world, task_state=None)
    assert abort(world, 1, "2.104")[0] == 409
    assert force(world, 1, "2.104")[0] == 409
    assert world.cloud.conductor.ordered == []


def test_a_cold_move_is_cancelled_until_its_end(world: World) -> None:
    migrate(world, task_state="resize_migrating")
    assert abort(world, 3, "2.24") == (202, None)
    assert world.cloud.conductor.ordered == [("cancel", world.uuids[2])]
    # The second one is confirmed.
    assert abort(world, 2, "2.24")[0] == 409


def test_the_progress_is_shown(world: World) -> None:
    progress = LiveProgress(phase=LivePhase.MEMORY, memory_total=9, memory_processed=5, memory_remaining=4, speed=3)
    with world.cloud.db.write() as session:
        migrations.note_progress(session, world.uuids[0], progress, START)
    shown = world.cloud.get(place(world), **at("2.23"))["migration"]
    assert [shown[f"memory_{name}_bytes"] for name in ("total", "processed", "remaining")] == [9, 5, 4]
    assert shown["disk_total_bytes"] == 0
    assert "phase" not in shown
    own = at("2.104")["headers"] | {"X-Minova-Fields": "all"}
    status, answer = world.cloud.ask("GET", place(world), headers=own)
    assert status == 200
    assert (answer["migration"]["phase"], answer["migration"]["bytes_per_second"]) == ("memory", 3)
