"""Placement over HTTP on PostgreSQL and MariaDB: what holds on SQLite, and many writers at once."""

import random
import threading
from collections.abc import Iterator

import pytest

from minova.db.models import Base
from tests.functional.api.placement.conftest import PlacementCloud, add_examples, holding
from tests.functional.api.placement.test_beside_the_scheduler import *  # noqa: F403
from tests.functional.api.placement.test_generations import *  # noqa: F403
from tests.functional.api.placement.test_routes import (  # noqa: F401
    test_a_class_is_renamed_with_all_that_is_of_it_before_1_7,
    test_providers_are_filtered,
    test_traits_are_filtered,
    test_usages_of_a_project_are_by_consumer_type,
)
from tests.functional.api.placement.test_trees import *  # noqa: F403
from tests.functional.scheduler.cloud import fresh, inventory_rows, named, unbalanced


@pytest.fixture(
    scope="module",
    params=[
        "fresh_postgresql_url",
        pytest.param("fresh_mariadb_url", marks=pytest.mark.nightly("test_placement_on_servers.py has the writes")),
    ],
)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlacementCloud]:
    url = request.getfixturevalue(request.param)()
    fresh(url).close()
    cloud = PlacementCloud(tmp_path_factory.mktemp("cloud"), url=url)
    yield cloud
    cloud.close()


@pytest.fixture
def cloud(server: PlacementCloud) -> Iterator[PlacementCloud]:
    """With empty tables: quicker than new ones. The cloud stays the same, or the server would take it for another one."""
    yield server
    emptied = [table for table in Base.metadata.sorted_tables if table.name not in {"cloud", "cloud_histories"}]
    with server.db.write() as session:
        for table in reversed(emptied):
            session.connection().execute(table.delete())


@pytest.fixture
def stocked(cloud: PlacementCloud) -> PlacementCloud:
    add_examples(cloud)
    return cloud


PROVIDERS = ("p0", "p1", "p2")
STEPS = 40


def test_many_writers_at_once_break_no_capacity(cloud: PlacementCloud) -> None:
    """Allocations of one and of several, and moves; a client that is refused or has a stale generation tries something else."""
    for name in PROVIDERS:
        cloud.provider(name, VCPU=6, MEMORY_MB=600)
    statuses: list[int] = []

    def write(number: int) -> None:
        dice = random.Random(number)
        for _ in range(STEPS):
            held = {
                name: {"VCPU": dice.randint(1, 3), "MEMORY_MB": dice.choice([50, 100, 200])}
                for name in dice.sample(PROVIDERS, dice.randint(0, 2))
            }
            consumer = named(f"consumer {dice.randrange(8)}")
            shown = cloud.right("GET", f"/allocations/{consumer}")
            body = holding(shown.get("consumer_generation"), **held)
            statuses.append(cloud.ask("PUT", f"/allocations/{consumer}", body).status)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(statuses) == len(writers) * STEPS
    assert set(statuses) == {204, 409}
    assert not unbalanced(inventory_rows(cloud.db))
    assert all(used <= capacity for _, _, capacity, used, _ in inventory_rows(cloud.db))


def test_a_child_made_while_its_parent_moves_has_the_new_root(cloud: PlacementCloud) -> None:
    for number in range(10):
        cloud.provider(f"top{number}")
        cloud.provider(f"moved{number}")
        start = threading.Barrier(2)

        def at_once(method: str, path: str, body: object, start: threading.Barrier = start) -> None:
            start.wait()
            cloud.right(method, path, body)

        moved = named(f"moved{number}")
        requests = (
            (
                "PUT",
                f"/resource_providers/{moved}",
                {"name": f"moved{number}", "parent_provider_uuid": named(f"top{number}")},
            ),
            ("POST", "/resource_providers", {"name": f"child{number}", "parent_provider_uuid": moved}),
        )
        threads = [threading.Thread(target=at_once, args=request) for request in requests]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    shown = cloud.right("GET", "/resource_providers")["resource_providers"]
    for provider in shown:
        if provider["name"].startswith("child"):
            assert provider["root_provider_uuid"] == named(f"top{provider['name'].removeprefix('child')}")


def test_two_moves_at_once_make_no_loop(cloud: PlacementCloud) -> None:
    """a below b and b below a, asked for at the same time: one of them is refused."""
    for number in range(10):
        names = (f"a{number}", f"b{number}")
        for name in names:
            cloud.provider(name)
        start = threading.Barrier(2)
        statuses: list[int] = []

        def move(name: str, parent: str, start: threading.Barrier = start, statuses: list[int] = statuses) -> None:
            body = {"name": name, "parent_provider_uuid": named(parent)}
            start.wait()
            statuses.append(cloud.ask("PUT", f"/resource_providers/{named(name)}", body).status)

        movers = [threading.Thread(target=move, args=pair) for pair in (names, names[::-1])]
        for mover in movers:
            mover.start()
        for mover in movers:
            mover.join()
        assert 200 in statuses
        assert set(statuses) <= {200, 400, 409}
        assert statuses.count(200) == 1
