"""Another cloud on the same machine, to which services are pointed by mistake: nothing of either cloud may change by that."""

import contextlib
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

from minova.db.engine import Database
from minova.db.models import ComputeNode, Instance, Service
from tests.integration.deployment import Executable
from tests.soak.cloud import STARTED_WITHIN, Cloud
from tests.soak.journal import Journal
from tests.waiting import wait_for

# What a service says of a database, and of a conductor, that is not of its own cloud.
DATABASE_WORDS, CONDUCTOR_WORDS = "belongs to the cloud", "The message is of the cloud"
OWN_HOST = "another-conductor"


class AnotherCloud:
    """It has a conductor and a database, and no guests. Safe for threads: one service is misled at a time."""

    def __init__(self, cloud: Cloud, journal: Journal) -> None:
        self._cloud = cloud
        self._journal = journal
        self._lock = threading.Lock()
        self._file = cloud.folder / "another" / "minova.sqlite"
        self._conductor: Executable | None = None
        self._transport_url = ""

    def mislead_controller(self, name: str, seconds: float) -> None:
        """It is started with the database of the other cloud, whose conductor is off, so that nothing else writes there."""
        with self._lock:
            self._open().stop()
            database, images = _content(self._file), self._cloud.stored_images()
            # An API serves reads of the other cloud, which knows no server of this one.
            self._journal.misled_url = self._cloud.url_of(name)
            self._cloud.kill(name)
            try:
                self._cloud.mislead(name, DATABASE_WORDS, database_url=f"sqlite:///{self._file}")
                time.sleep(seconds)
                assert _content(self._file) == database, f"{name} has changed another cloud's database"
                assert self._cloud.stored_images() >= images, f"{name} has removed images at another cloud's database"
            finally:
                self._cloud.lead_back(name)
                self._journal.misled_url = None

    def mislead_compute(self, name: str, seconds: float) -> None:
        """It is started with the broker of the other cloud, whose conductor answers it."""
        with self._lock:
            conductor = self._open()
            if not conductor.is_running:
                self._start(conductor)
            self._cloud.kill(name)
            guests = self._cloud.books(name)
            try:
                self._cloud.mislead(name, CONDUCTOR_WORDS, transport_url=self._transport_url)
                time.sleep(seconds)
                assert self._cloud.books(name) == guests, f"{name} has changed guests for another cloud"
                assert self._known() == [], f"another cloud has rows of {name}"
            finally:
                self._cloud.lead_back(name)

    def close(self) -> None:
        if self._conductor is not None:
            self._conductor.kill()

    def _open(self) -> Executable:
        if self._conductor is None:
            self._transport_url = self._cloud.broker.fresh_url()
            self._file.parent.mkdir()
            options: dict[str, dict[str, Any]] = {
                "DEFAULT": {
                    "host": OWN_HOST,
                    "state_path": self._file.parent / "state",
                    "transport_url": self._transport_url,
                },
                "database": {"connection": f"sqlite:///{self._file}"},
            }
            conductor = Executable("minova-conductor", self._file.parent, options)
            conductor.manage("db", "upgrade")
            self._start(conductor)
            self._conductor = conductor
        return self._conductor

    def _start(self, conductor: Executable) -> None:
        self._cloud.start_beside(conductor)
        wait_for("the conductor of another cloud", lambda: conductor.listens, STARTED_WITHIN)

    def _known(self) -> list[str]:
        """Hosts and servers that are not its own."""
        database = Database(f"sqlite:///{self._file}", readonly=True)
        with contextlib.closing(database), database.read() as session:
            hosts = [service.host for service in session.query(Service) if service.host != OWN_HOST]
            return [
                *hosts,
                *(row.host for row in session.query(ComputeNode)),
                *(row.uuid for row in session.query(Instance)),
            ]


def _content(file: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        return list(connection.iterdump())
