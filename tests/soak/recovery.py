"""The database goes back in time, and an operator brings it together with what hosts and image stores hold."""

import itertools
import time
from collections.abc import Callable

import msgspec
from sqlalchemy import select

from minova import errors
from minova.cmd.commands import recovery
from minova.conductor.moves.in_progress import KIND
from minova.db.engine import Database
from minova.db.models import Instance, Migration, Task
from minova.db.recovery.cloud import CloudRecord
from tests.servers.postgresql import client
from tests.soak.cloud import Cloud
from tests.soak.journal import Journal, Loss
from tests.waiting import wait_for

# A host that was killed must start before it can report.
RECOVERED_WITHIN = 300.0
# Also of hosts whose power has failed.
MOVED_WITHIN = 240.0
NOTICED_WITHIN = UPLOADED_WITHIN = DELETED_WITHIN = 120.0


class Recovery:
    """`are_ready`: whether users have what they made once, such as groups: a database that lacks it loses it for good."""

    def __init__(self, cloud: Cloud, journal: Journal, database: Database, are_ready: Callable[[], bool]) -> None:
        self._cloud = cloud
        self._journal = journal
        self._database = database
        self._are_ready = are_ready
        self._numbers = itertools.count(1)
        self._last_words = ""

    def restore(self, seconds: float) -> None:
        """Restore a backup of so many seconds ago, as docs/operators/backup.md says."""
        wait_for("users are ready", self._are_ready)
        url, dump = self._cloud.database_url, self._cloud.folder / "database.dump"
        self._end_moves()
        history, since = self._record().history, time.monotonic()
        client("pg_dump", url, "--format=custom", "--file", dump)
        self._upload()
        time.sleep(seconds)
        with self._cloud.without_controllers():
            self._journal.ran(self._cloud.guests())
            client("pg_restore", url, "--clean", "--if-exists", "--single-transaction", dump)
        self._recover(history, since)

    def promote(self, seconds: float) -> None:
        """Promote a replica that lacks so many seconds, under the services that run."""
        wait_for("users are ready", self._are_ready)
        self._end_moves()
        history = self._record().history
        replica = self._cloud.replicate()

        def has_all() -> float:
            requested_at = time.monotonic()
            return requested_at if replica.has_all() else 0.0

        since = wait_for("the replica has all", has_all)
        replica.lag()
        wait_for("the replica receives nothing more", replica.is_cut_off)
        self._upload()
        time.sleep(seconds)
        self._journal.ran(self._cloud.guests())
        replica.take_over()
        self._cloud.database = replica
        self._recover(history, since)

    def _end_moves(self) -> None:
        """None is in progress or waits for a confirmation: of one that the database loses, the guest would be at a host of which the
        database knows nothing, or the copy be gone to which the database would go back.
        """
        self._journal.no_moves.set()
        wait_for("moves have ended", self._have_moves_ended, MOVED_WITHIN)

    def _have_moves_ended(self) -> bool:
        owed = select(Migration.id).where(Migration.cleanup_host.is_not(None))
        resized = select(Instance.id).where(Instance.vm_state == "resized", Instance.deleted_at.is_(None))
        moving = select(Task.id).where(Task.kind == KIND)
        try:
            with self._database.read() as session:
                return all(session.scalar(query.limit(1)) is None for query in (owed, resized, moving))
        except errors.ServiceUnavailable:
            return False

    def _upload(self) -> None:
        """Upload an image that the database is to lose."""
        name = f"image-{next(self._numbers)}"
        file = self._cloud.folder / name
        file.write_bytes(name.encode())

        def uploaded() -> str:
            try:
                shown = self._cloud.cli(
                    "image", "create", name, "--file", str(file), "--disk-format", "raw", "-f", "json"
                )
                return str(msgspec.json.decode(shown)["id"])
            except msgspec.DecodeError:
                return ""  # the API is away

        self._journal.image_uploaded(wait_for("an image is uploaded", uploaded, UPLOADED_WITHIN))

    def _recover(self, history: str, since: float) -> None:
        """Safe mode begins and ends, and what was deleted meanwhile is deleted again. `history`: the one of the old database."""

        def noticed() -> bool:
            row = self._record()
            return row.safe_since is not None or row.history != history

        wait_for("the cloud notices what its database has lost", noticed, NOTICED_WITHIN)
        self._journal.lost(Loss(since=since, until=time.monotonic()))
        self._journal.is_recovering.set()
        try:
            wait_for("the cloud is recovered", self._is_recovered, RECOVERED_WITHIN)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self._last_words}") from None
        finally:
            self._journal.is_recovering.clear()
            self._journal.no_moves.clear()
        wait_for("what was deleted is deleted again", lambda: self._are_deleted_again(since), DELETED_WITHIN)

    def _is_recovered(self) -> bool:
        """Once all have reported, let the operator's command bring all together. Safe mode may also end by itself."""
        try:
            findings = recovery.find(self._database)
            if findings.row.safe_since is None:
                return True
            self._last_words = f"no report of {findings.silent}"
            if not findings.silent:
                self._journal.were_adopted(adopted_thing.id for adopted_thing in findings.things)
                for thing in findings.things:
                    # Its image may be a snapshot that the database has lost: the command leaves such guests to a look.
                    if thing.kind == "guest" and thing.can_be_adopted:
                        self._cloud.manage("unexpected", "adopt", thing.id, "--host", thing.where, "--apply")
                self._cloud.manage("recovery", "--apply")
        except (errors.ServiceUnavailable, AssertionError) as error:
            self._last_words = str(error)
        return False

    def _are_deleted_again(self, since: float) -> bool:
        deleted = self._journal.deleted_since(since)
        with self._database.read() as session:
            back = session.scalars(
                select(Instance.uuid).where(
                    Instance.uuid.in_(deleted),
                    Instance.deleted_at.is_(None),
                    Instance.task_state.is_distinct_from("deleting"),
                )
            ).all()
        self._journal.were_deleted_again(back)
        for uuid in back:
            self._cloud.cli("server", "delete", uuid)
        return not back

    def _record(self) -> CloudRecord:
        def found() -> CloudRecord | None:
            try:
                return recovery.find(self._database).row
            except errors.ServiceUnavailable:
                return None

        row = wait_for("the database answers", found)
        assert row is not None
        return row
