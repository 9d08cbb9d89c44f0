"""Limits; and the bounds of counted usages: the last unit of a limit, a limit of 0, no limit, and never below 0."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from minova.db import models, quotas
from minova.db.catalogue import images
from minova.db.engine import Database
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.quota import COUNTED, UNLIMITED
from minova.objects.servers.migration import Migration, MigrationType
from minova.objects.servers.states import TaskState, VmState
from tests.functional.scheduler.cloud import SEEN, add_instance, conf_of, flavor, named


@pytest.fixture
def db(tmp_path: Path) -> Database:
    database = Database(f"sqlite:///{tmp_path}/minova.sqlite")
    models.Base.metadata.create_all(database.engine)
    database.run(lambda session: quotas.count_first(session, "p"))
    return database


def take(db: Database, cores: int, limit: int) -> int:
    """Returns the usage afterwards."""
    db.run(lambda session: quotas.take(session, "p", {"cores": cores}, {"cores": limit}))
    return used(db)


def used(db: Database) -> int:
    with db.read() as session:
        return quotas.usages_of(session, "p")["cores"]


def test_the_last_unit_of_a_limit_is_granted_and_the_next_refused(db: Database) -> None:
    assert take(db, 3, limit=4) == 3
    assert take(db, 1, limit=4) == 4
    with pytest.raises(quotas.OverQuota, match="Requested 1, but already used 4 of 4 cores"):
        take(db, 1, limit=4)
    assert used(db) == 4


def test_a_limit_of_0_grants_nothing(db: Database) -> None:
    with pytest.raises(quotas.OverQuota):
        take(db, 1, limit=0)


def test_no_limit_grants_all(db: Database) -> None:
    assert take(db, 1000, limit=UNLIMITED) == 1000


@pytest.mark.parametrize(("given", "left"), [(2, 3), (5, 0), (9, 0), (0, 5)])
def test_a_usage_never_falls_below_0(db: Database, given: int, left: int) -> None:
    take(db, 5, limit=10)
    db.run(lambda session: quotas.give(session, "p", {"cores": given}))
    assert used(db) == left


def test_images_count_for_their_owner(db: Database) -> None:
    def add(session: Session) -> None:
        for number, owner in enumerate(("p", "p", "q")):
            image = Image(id=f"00000000-0000-4000-8000-{number:012d}", name="i", owner=owner, size=2**20 + 1)
            images.add(session, image, SEEN)

    db.run(add)
    with db.read() as session:
        counted = quotas.counted(session, "p", ["image_count_total", "image_size_total"])
    assert counted == {"image_count_total": 2, "image_size_total": 4}


def limits(db: Database, project_id: str = "p") -> dict[str, int]:
    with db.read() as session:
        return quotas.limits_of(session, conf_of(), project_id)


def test_a_limit_is_the_projects_own_else_that_of_the_class_else_the_option(db: Database) -> None:
    def store(session: Session) -> None:
        quotas.set_class(session, "default", {"cores": 7, "ram": 70})
        quotas.set_class(session, "gold", {"instances": 700})
        quotas.set_limits(session, "p", {"cores": 8, "of an old release": 1})

    options = quotas.configured(conf_of())
    assert limits(db) == options
    db.run(store)
    assert limits(db) == options | {"cores": 8, "ram": 70}
    assert limits(db, "q") == options | {"cores": 7, "ram": 70}
    with db.read() as session:
        assert quotas.defaults(session, conf_of()) == options | {"cores": 7, "ram": 70}
        assert quotas.defaults(session, conf_of(), "gold") == options | {"instances": 700}


@pytest.mark.parametrize("own", [6, 8])
def test_a_limit_of_the_class_that_is_set_later_does_not_override_the_projects_own(db: Database, own: int) -> None:
    db.run(lambda session: quotas.set_limits(session, "p", {"cores": own}))
    db.run(lambda session: quotas.set_class(session, "default", {"cores": 7}))
    assert (limits(db)["cores"], limits(db, "q")["cores"]) == (own, 7)


def test_limits_of_one_project_are_changed_and_removed_one_by_one(db: Database) -> None:
    db.run(lambda session: quotas.set_limits(session, "p", {"cores": 8, "ram": 80}))
    db.run(lambda session: quotas.set_limits(session, "q", {"cores": 8, "ram": 80}))
    db.run(lambda session: quotas.set_limits(session, "p", {"cores": 9}))
    assert [(limits(db, project)["cores"], limits(db, project)["ram"]) for project in ("p", "q")] == [(9, 80), (8, 80)]
    db.run(lambda session: quotas.remove_limits(session, "p", ["cores"]))
    options = quotas.configured(conf_of())
    assert [(limits(db, project)["cores"], limits(db, project)["ram"]) for project in ("p", "q")] == [
        (options["cores"], 80),
        (8, 80),
    ]


def test_a_refusal_shows_what_was_used_before_the_request(db: Database) -> None:
    take(db, 3, limit=4)
    with pytest.raises(quotas.OverQuota) as error:
        db.run(
            lambda session: quotas.take(
                session, "p", {"cores": 1, "ram": 5, "instances": 0}, {"cores": 4, "instances": 4, "ram": 4}
            )
        )
    assert (error.value.used["cores"], error.value.used["ram"]) == (3, 0)
    assert [excess.resource for excess in error.value.over] == ["ram"]
    assert error.value.limits == {"cores": 4, "instances": 4, "ram": 4}


def test_what_is_taken_is_limited_by_the_projects_own_limit_else_by_the_class_else_by_the_option(db: Database) -> None:
    def store(session: Session) -> None:
        quotas.set_class(session, "default", {"cores": 2, "ram": 100})
        quotas.set_class(session, "gold", {"instances": 0})
        quotas.set_limits(session, "p", {"cores": 5})
        quotas.set_limits(session, "q", {"ram": 0, "instances": 0})

    db.run(store)
    options = {"cores": 0, "ram": 0, "instances": 1}
    db.run(lambda session: quotas.take(session, "p", {"cores": 5, "ram": 100, "instances": 1}, options))
    with pytest.raises(quotas.OverQuota) as error:
        db.run(lambda session: quotas.take(session, "p", {"cores": 1, "ram": 1, "instances": 1}, options))
    assert error.value.limits == {"cores": 5, "ram": 100, "instances": 1}
    assert {excess.resource for excess in error.value.over} == {"cores", "ram", "instances"}


def test_each_usage_of_the_project_rises_by_its_own_amount(db: Database) -> None:
    amounts = {"cores": 2, "ram": 300, "instances": 1}
    db.run(lambda session: quotas.count_first(session, "q"))
    for _ in range(2):
        db.run(lambda session: quotas.take(session, "p", amounts, None))
    with db.read() as session:
        counts = dict.fromkeys(COUNTED, 0)
        assert quotas.usages_of(session, "p") == counts | {"cores": 4, "ram": 600, "instances": 2}
        assert quotas.usages_of(session, "q") == counts


def test_nothing_and_less_than_nothing_always_fit(db: Database) -> None:
    take(db, 4, limit=4)
    for amount in (0, -1):
        assert take(db, amount, limit=0) == 4
        with db.write() as session:
            quotas.take(session, "new", {"cores": amount}, {"cores": 0})


@pytest.mark.parametrize("wanted", [{"cores": 1}, {"cores": 99}])
def test_a_project_must_be_counted_before_its_first_use(db: Database, wanted: dict[str, int]) -> None:
    with pytest.raises(quotas.UsageNotCounted) as error:
        db.run(lambda session: quotas.take(session, "new", wanted, {"cores": 4}))
    assert error.value.project_id == "new"


def test_records_that_are_counted_again_need_no_room(db: Database) -> None:
    take(db, 4, limit=4)
    db.run(lambda session: quotas.add(session, "p", {"cores": 3, "ram": 1}))
    db.run(lambda session: quotas.add(session, "new", {"cores": 3}))
    assert used(db) == 7
    with db.read() as session:
        assert quotas.usages_of(session, "new") == {}
        assert quotas.projects(session) == ["p"]


def test_usages_that_differ_from_the_rows_are_corrected(db: Database) -> None:
    take(db, 4, limit=4)
    db.run(lambda session: quotas.count_first(session, "p"))
    db.run(lambda session: quotas.count_first(session, "q"))
    assert used(db) == 4
    assert db.run(lambda session: quotas.recount(session, "p")) == {"cores": (4, 0)}
    assert used(db) == 0
    assert db.run(lambda session: quotas.recount(session, "p")) == {}
    assert db.run(lambda session: quotas.recount(session, "unknown")) == {}


def test_resources_that_were_never_used_are_counted_from_their_rows(db: Database) -> None:
    db.run(lambda session: add_instance(session, named("one")))
    with db.read() as session:
        assert quotas.usages_of(session, "p")["instances"] == 0
        assert quotas.current_usages(session, "p")["instances"] == 0
    db.run(lambda session: session.query(models.QuotaUsage).filter_by(resource="instances").delete())
    with db.read() as session:
        assert quotas.current_usages(session, "p") == dict.fromkeys(COUNTED, 0) | {"instances": 1}


SMALL, LARGE = flavor(memory_mb=100, vcpus=1), flavor(memory_mb=50, vcpus=4)
OF_SMALL = {"instances": 1, "cores": 1, "ram": 100}


def add_move(session: Session, instance_uuid: str, status: str) -> None:
    move = Migration(
        uuid=named(f"move {status}"),
        instance_uuid=instance_uuid,
        migration_type=MigrationType.RESIZE,
        status=status,
        source_compute="a",
        source_node="a",
        old_flavor=SMALL,
        new_flavor=LARGE,
    )
    columns = {name: getattr(move, name) for name in ("uuid", "instance_uuid", "migration_type", "status")}
    places = {"source_compute": "a", "source_node": "a", "created_at": SEEN}
    session.add(models.Migration(**columns, **places, value=move))


@pytest.mark.parametrize(
    ("row", "status", "counted"),
    [
        ({}, None, OF_SMALL),
        ({"vm_state": VmState.SOFT_DELETED}, None, {}),
        ({"vm_state": VmState.SOFT_DELETED, "task_state": TaskState.RESTORING}, None, OF_SMALL),
        ({"deleted_at": SEEN}, None, {}),
        ({"deleted_at": SEEN}, "migrating", {}),
        ({"project_id": "q"}, "migrating", {}),
        ({}, "migrating", {"instances": 1, "cores": 4, "ram": 100}),
        ({"flavor": LARGE}, "finished", {"instances": 1, "cores": 4, "ram": 100}),
        ({}, "confirmed", OF_SMALL),
    ],
)
def test_servers_count_with_the_larger_of_both_sizes_while_they_move(
    db: Database, row: dict[str, Any], status: str | None, counted: dict[str, int]
) -> None:
    uuid = named("one")

    def put(session: Session) -> None:
        add_instance(session, uuid)
        session.execute(update(models.Instance).values({"flavor": SMALL} | row))
        if status is not None:
            add_move(session, uuid, status)

    db.run(put)
    with db.read() as session:
        assert quotas.counted(session, "p", list(OF_SMALL)) == dict.fromkeys(OF_SMALL, 0) | counted
        assert quotas.counted(session, "p", ["cores"]) == {"cores": counted.get("cores", 0)}


@pytest.mark.parametrize(
    ("status", "counted", "left"),
    [
        (None, True, {"instances": 9, "cores": 9, "ram": 900}),
        (None, False, {"instances": 10, "cores": 10, "ram": 1000}),
        ("migrating", True, {"instances": 9, "cores": 6, "ram": 900}),
        ("migrating", False, {"instances": 10, "cores": 7, "ram": 1000}),
        ("confirmed", True, {"instances": 9, "cores": 9, "ram": 900}),
    ],
)
def test_a_destroyed_server_gives_back_what_it_counted(
    db: Database, status: str | None, counted: bool, left: dict[str, int]
) -> None:
    uuid = named("one")

    def put(session: Session) -> None:
        add_instance(session, uuid)
        add_instance(session, named("two"))
        session.execute(update(models.Instance).values(flavor=SMALL))
        quotas.add(session, "p", {"instances": 10, "cores": 10, "ram": 1000, "ports": 5})
        if status is not None:
            add_move(session, uuid, status)

    db.run(put)
    # A server counts unless its caller says otherwise.
    uncounted = {} if counted else {"counted": False}
    db.run(lambda session: quotas.give_server(session, uuid, {"ports": 2}, **uncounted))
    with db.read() as session:
        usages = quotas.usages_of(session, "p")
    assert {name: usages[name] for name in (*left, "ports")} == left | {"ports": 3}


@pytest.mark.parametrize(
    ("size", "reserved", "megabytes"),
    [(0, 0, 0), (None, 0, 0), (1, 0, 1), (2**20, 0, 1), (2**20 + 1, 0, 2), (1, 2**21, 2)],
)
def test_size_of_an_image_in_megabytes_is_rounded_up(size: int | None, reserved: int, megabytes: int) -> None:
    image = Image(id=named("image"), name="i", owner="p", size=size, reserved=reserved)
    assert quotas.of_image(image) == {"image_count_total": 1, "image_size_total": megabytes}
    elsewhere = msgspec.structs.replace(image, service="glance")
    assert quotas.of_image(elsewhere) == {"image_count_total": 0, "image_size_total": 0}


def test_groups_and_networks_count_for_their_project(db: Database) -> None:
    def put(session: Session) -> None:
        for project in ("p", "p", "q"):
            number = named(f"{project}{session.query(models.InstanceGroup).count()}")
            session.add(
                models.InstanceGroup(
                    uuid=number, name="g", project_id=project, user_id="u", policy="affinity", created_at=SEEN
                )
            )
            session.flush()
        for serial, project in enumerate(("p", "p", "p", "q")):
            values: dict[str, Any] = {
                "uuid": named(f"security group {serial}"),
                "name": "s",
                "description": "",
                "revision_number": 0,
            }
            session.add(models.SecurityGroup(project_id=project, created_at=SEEN, updated_at=SEEN, **values))

    db.run(put)
    with db.read() as session:
        counted = quotas.counted(session, "p", ["server_groups", "security_group", "networks"])
    assert counted == {"server_groups": 2, "security_group": 3, "networks": 0}


def test_sizes_of_several_servers_and_of_the_larger_flavor() -> None:
    assert quotas.of_servers(LARGE, 3) == {"instances": 3, "cores": 12, "ram": 150}
    assert quotas.more_than(LARGE, SMALL) == {"cores": 3}
    assert quotas.more_than(SMALL, LARGE) == {"ram": 50}
    assert quotas.more_than(SMALL, SMALL) == {}
