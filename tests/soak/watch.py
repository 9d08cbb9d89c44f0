"""How long servers take to boot, seen from outside: the rows are looked at several times a second."""

import threading
import time

from sqlalchemy import select

from minova import errors
from minova.db.engine import Database
from minova.db.models import CreateRequest, Instance
from tests.soak.journal import Journal

EVERY = 0.3


class Watch(threading.Thread):
    """`longest_boot`: seconds from the answer to a create until a server of it is ACTIVE or ERROR, or gone."""

    def __init__(self, database: Database, journal: Journal) -> None:
        super().__init__(name="watch", daemon=True)
        self._database = database
        self._journal = journal
        self._known: set[str] = set()
        self._pending: dict[str, str] = {}
        self.boots: list[float] = []
        self.longest_boot = 0.0
        self.slowest = ""
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.wait(EVERY):
            try:
                self.look()
            except errors.ServiceUnavailable:
                continue  # the database is being restarted

    def look(self) -> None:
        with self._database.read() as session:
            rows = session.execute(
                select(CreateRequest.request_uuid, CreateRequest.instance_uuids).order_by(CreateRequest.created_at)
            ).all()
            for request, servers in rows:
                if request not in self._known:
                    self._known.add(request)
                    self._pending |= dict.fromkeys(servers, request)
            if not self._pending:
                return
            states = session.execute(
                select(Instance.uuid, Instance.vm_state, Instance.task_state, Instance.deleted_at).where(
                    Instance.uuid.in_(list(self._pending))
                )
            ).all()
        for server, vm_state, task_state, deleted_at in states:
            if deleted_at is not None or task_state == "deleting":
                del self._pending[server]
            elif vm_state in {"active", "error"}:
                self._ended(server, vm_state)

    def _ended(self, server: str, vm_state: str) -> None:
        create = self._journal.creates.get(self._pending[server])
        if create is None or create.answered_at is None:
            return
        took = time.monotonic() - create.answered_at
        del self._pending[server]
        if vm_state == "active":
            self.boots.append(took)
        if took > self.longest_boot:
            self.longest_boot, self.slowest = took, f"{server} ({vm_state})"
