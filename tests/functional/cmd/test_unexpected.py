"""`minova-manage unexpected`: a list, and decisions that are only checked without --apply."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import select, update

from minova.cmd.manage import run
from minova.db import models
from minova.db.engine import Database
from minova.db.servers import migrations
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.servers.instance import Instance
from minova.objects.servers.migration import Hold, Migration, MigrationType
from minova.objects.unexpected.guest_record import GuestMark, GuestRecord
from minova.objects.unexpected.removal_rules import DomainVerdict
from tests.functional.placement.cases import held, hosts
from tests.functional.scheduler.cloud import named
from tests.tables import make_tables

AT = datetime(2026, 11, 26, 12, tzinfo=UTC).replace(tzinfo=None)
FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=512, root_gb=1)
GUEST, IMAGE = named("guest"), named("image")


class Operator:
    def __init__(self, url: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._conf = folder / "minova.conf"
        self._conf.write_text(f"[database]\nconnection = {url}\n")
        self._capsys = capsys

    def run(self, *words: str, code: int = 0, noun: str = "unexpected") -> str:
        assert run(["--config-file", str(self._conf), noun, *words]) == code
        return self._capsys.readouterr().out


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    make_tables(url)
    database = Database(url)
    hosts(database, "a", "b")
    yield database
    database.close()


@pytest.fixture
def operator(db: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Operator:
    return Operator(f"sqlite:///{tmp_path}/minova.sqlite", tmp_path, capsys)


def report(db: Database, name: str = "web") -> None:
    instance = Instance(
        uuid=GUEST, display_name=name, flavor=FLAVOR, project_id="demo", user_id="alice", image_ref=IMAGE, attempt=1
    )
    mark = GuestMark(uuid=GUEST, name=name, node="a", memory_mb=512, vcpus=1, power_state=1, attempt=1, has_record=True)
    record = GuestRecord(instance=instance, attempt=1, node="a")
    image = Image(id=IMAGE, name="golden", status="active", owner="demo", size=1)
    reason = DomainVerdict.NO_ROW.value
    with db.write() as session:
        session.add(
            models.UnexpectedGuest(
                host="a", uuid=GUEST, reason=reason, mark=mark, record=record, seen_at=AT, remove_at=None
            )
        )
        session.add(
            models.UnexpectedImage(
                store="api", id=IMAGE, reason=reason, size=1, image=image, seen_at=AT, remove_at=None
            )
        )


def test_nothing_unexpected(operator: Operator) -> None:
    assert operator.run("list") == "Hosts and image stores hold nothing that the database does not know.\n"


def test_the_list(operator: Operator, db: Database) -> None:
    report(db)
    lines = operator.run("list", code=1).splitlines()
    assert lines[1].split("  ")[0:2] == ["guest", GUEST]
    listed = json.loads(operator.run("list", "--json", code=1))
    assert [
        (thing["kind"], thing["id"], thing["where"], thing["name"], thing["can_be_adopted"]) for thing in listed
    ] == [
        ("guest", GUEST, "a", "web", True),
        ("image", IMAGE, "api", "golden", True),
    ]


def test_the_list_shows_what_an_adoption_would_write(operator: Operator, db: Database) -> None:
    report(db)
    (guest_view, _) = json.loads(operator.run("list", "--json", code=1))
    shown = {name: guest_view[name] for name in ("project_id", "user_id", "flavor", "image_id")}
    assert shown == {"project_id": "demo", "user_id": "alice", "flavor": "m1", "image_id": IMAGE}
    guest = operator.run("list", code=1).splitlines()[1]
    for text in ("demo", "alice", "m1", IMAGE, "only by itself: there is no such flavor m1"):
        assert text in guest


def test_control_characters_of_a_host_do_not_reach_the_terminal(operator: Operator, db: Database) -> None:
    report(db, name="web\nguest  forged\x1b[2J")
    printed = operator.run("list", code=1)
    assert len(printed.splitlines()) == 3
    assert "\x1b" not in printed
    assert "web\\nguest" in printed


def test_recovery_leaves_what_is_not_as_the_catalogue_says(operator: Operator, db: Database) -> None:
    report(db)
    assert "only by itself: there is no such flavor m1" in operator.run(noun="recovery", code=1)
    printed = operator.run("--apply", "--leave-rest", "--without-host", "a", noun="recovery")
    assert f"{IMAGE}: adopted" in printed
    assert f"minova-manage unexpected adopt {GUEST} --host a --apply" in printed
    with db.read() as session:
        assert session.scalars(select(models.Instance)).all() == []


def test_bug_a_recovery_that_found_nothing_left_put_services_into_safe_mode(operator: Operator, db: Database) -> None:
    """They change nothing until they have reported in the new history, which a store does once a minute."""
    report(db)
    with db.write() as session:
        session.delete(session.get(models.UnexpectedGuest, ("a", GUEST)))
    before = history(db)
    printed = operator.run("--apply", noun="recovery")
    assert f"{IMAGE}: adopted" in printed
    assert printed.endswith("Nothing is left to do.\n")
    operator.run("--apply", noun="recovery")
    assert history(db) == before


def history(db: Database) -> str:
    with db.read() as session:
        return session.scalars(select(models.Cloud.history)).one()


def test_a_server_is_taken_from_one_host_at_a_time(operator: Operator, db: Database) -> None:
    report(db)
    operator.run("adopt", GUEST, "--take-from", "b", "--apply", code=1)
    operator.run("adopt", GUEST, "--host", "a", "--take-from", "b", "--apply")


def test_adoption_needs_apply(operator: Operator, db: Database) -> None:
    report(db)
    assert "Run again with --apply" in operator.run("adopt", GUEST, IMAGE)
    with db.read() as session:
        assert session.scalars(select(models.Instance)).all() == []
    operator.run("adopt", GUEST, IMAGE, "--apply")
    with db.read() as session:
        server = session.scalars(select(models.Instance)).one()
        image = session.scalars(select(models.Image)).one()
        assert (server.uuid, server.host, server.node, server.vm_state) == (GUEST, "a", "a", "active")
        assert (image.id, image.status, image.name) == (IMAGE, "active", "golden")
    assert held(db, "guest") != {}
    assert "nothing" in operator.run("list")


def test_removal_writes_tombstones(operator: Operator, db: Database) -> None:
    report(db)
    operator.run("remove", GUEST, IMAGE)
    with db.read() as session:
        assert session.scalars(select(models.PurgedInstance)).all() == []
    operator.run("remove", GUEST, IMAGE, "--apply")
    with db.read() as session:
        assert session.scalars(select(models.PurgedInstance.uuid)).all() == [GUEST]
        assert session.scalars(select(models.DeletedImage.id)).all() == [IMAGE]
    assert operator.run("list", code=1).count("to be removed") == 2


def test_a_copy_that_a_move_has_left_is_shown_and_removed(operator: Operator, db: Database) -> None:
    """An instance has been adopted on host a, and a move had left on b what may be the last copy of its disks."""
    report(db)
    operator.run("adopt", GUEST, IMAGE, "--apply")
    db.run(lambda session: migrations.add(session, held_copy(), AT, db.now()))
    line = operator.run("list", code=1).splitlines()[1]
    assert line.startswith(f"copy  {GUEST}  b")
    assert "it may be newer than the server's disks" in line
    operator.run("remove", GUEST, "--host", "a", "--apply", code=1)
    operator.run("remove", GUEST)
    assert operator.run("list", code=1).splitlines()[1] == line
    operator.run("remove", GUEST, "--host", "b", "--apply")
    assert "nothing" in operator.run("list")
    with db.read() as session:
        (changed,) = migrations.owed_by(session, "b")
    assert (changed.hold, changed.proven) == (Hold.NONE, True)


def test_the_only_copy_of_a_server_is_not_removed(operator: Operator, db: Database) -> None:
    report(db)
    operator.run("adopt", GUEST, IMAGE, "--apply")
    db.run(lambda session: migrations.add(session, held_copy(), AT, db.now()))
    with db.write() as session:
        session.execute(update(models.Instance).values(host=None))
    assert "the copy on b may be the last one" in operator.run("remove", GUEST, "--apply", code=1)


def reports(db: Database, **reasons: DomainVerdict) -> None:
    """Replaces the reports of these hosts about the guest."""
    with db.write() as session:
        for host, reason in reasons.items():
            mark = GuestMark(uuid=GUEST, name="web", node=host, memory_mb=512, vcpus=1, power_state=4, attempt=1)
            session.merge(
                models.UnexpectedGuest(
                    host=host, uuid=GUEST, reason=reason.value, mark=mark, record=None, seen_at=AT, remove_at=None
                )
            )


def test_bug_a_copy_and_a_guest_of_one_server_needed_two_calls(operator: Operator, db: Database) -> None:
    report(db)
    operator.run("adopt", GUEST, IMAGE, "--apply")
    hosts(db, "c")
    db.run(lambda session: migrations.add(session, held_copy(), AT, db.now()))
    reports(db, c=DomainVerdict.MISPLACED)
    operator.run("remove", GUEST, "--apply")
    (line,) = operator.run("list", code=1).splitlines()[1:]
    assert line.startswith(f"guest  {GUEST}  c")
    assert "to be removed" in line


def test_bug_refusal_to_remove_a_copy_was_hidden_by_the_report_of_its_host(operator: Operator, db: Database) -> None:
    """The server's own host reports that it has no guest."""
    report(db)
    operator.run("adopt", GUEST, IMAGE, "--apply")
    db.run(lambda session: migrations.add(session, held_copy(), AT, db.now()))
    reports(db, a=DomainVerdict.NO_GUEST)
    assert "the copy on b may be the last one" in operator.run("remove", GUEST, "--apply", code=1)
    assert "No host reports an unexpected guest" in operator.run("remove", GUEST, "--host", "c", "--apply", code=1)


def held_copy() -> Migration:
    return Migration(
        uuid=named("migration"),
        instance_uuid=GUEST,
        migration_type=MigrationType.LIVE_MIGRATION,
        status="error",
        source_compute="a",
        source_node="a",
        dest_compute="b",
        dest_node="b",
        old_flavor=FLAVOR,
        new_flavor=FLAVOR,
        cleanup_host="b",
        hold=Hold.LAST,
    )


def test_what_cannot_be_done_is_said(operator: Operator) -> None:
    assert "Neither a host nor an image store reports" in operator.run("adopt", GUEST, "--apply", code=1)


def test_the_audit_of_placement_reports_guests_too(operator: Operator, db: Database) -> None:
    report(db)
    assert "guest without server" in operator.run("audit", noun="placement")
