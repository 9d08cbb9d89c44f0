"""Compares what services have seen of their cloud with the database, and ends safe mode when both agree."""

import logging

import msgspec
from sqlalchemy.orm import Session

from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.api.services import SeenByApisApi
from minova.db.hosts import services
from minova.db.recovery import cloud, reports, unexpected
from minova.db.recovery.cloud import HOST, STORE, CloudRecord
from minova.objects.hosts.cloud import LOST, CloudState, WitnessRecord

LOG = logging.getLogger(__name__)
COMPUTE = "minova-compute"
_BINARIES = frozenset({COMPUTE, "minova-scheduler"})
# Seconds between two tries to end safe mode.
END_INTERVAL = 5.0


class Witnesses(SeenByApisApi):
    """Safe for threads."""

    def __init__(self, worker: TaskWorker) -> None:
        self._worker = worker
        self._history = worker.history

    @property
    def state(self) -> CloudState | None:
        """Returns what this conductor shows to every service; None before its first look at the database."""
        return self._history.state

    def judged(self, host: str, binary: str, seen: WitnessRecord | None) -> CloudState | None:
        """Returns the state of the cloud for a service that has seen this. A contradiction holds this conductor at once,
        and the cloud if it lasts.
        """
        if seen is not None:
            with self._worker.db.read() as session:
                self._history.compare(session, _sender(host, binary), seen, self._worker.now())
        return self._answer(host, binary, seen)

    def api_has_seen(self, ctx: RequestContext, place: str, seen: WitnessRecord) -> None:
        """The next look judges what an API has seen."""
        self._history.hear(f"minova-api of {place}", seen)

    def _answer(self, host: str, binary: str, seen: WitnessRecord | None) -> CloudState | None:
        state, row = self._history.state, self._history.row
        if state is None or row is None or seen is None or binary != COMPUTE or seen.history == row.history:
            return state
        with self._worker.db.read() as session:
            if reports.is_known(session, row, HOST, host):
                return state
        # The host has not reported since the end of its history: what it holds may be missing in the database.
        return msgspec.structs.replace(state, safe_mode=state.safe_mode or LOST)

    # -- the end of safe mode --------------------------------------------------------------------------------------

    def end_safe_mode(self) -> None:
        """End it once every host and image store has reported, and nothing that they hold is missing in the database."""
        row = self._history.row
        if row is None or row.safe_since is None or self._history.is_foreign:
            return
        if self._worker.record(lambda session: end_if_complete(session, self._worker)):
            LOG.warning("All hosts and image stores have reported, and nothing is missing: safe mode ends")


def _sender(host: str, binary: str) -> str:
    """Returns the name of a sender for logs and memory. A compute's user proves its host and nothing else."""
    return f"{binary if binary in _BINARIES else 'a service'} of {host}"


def end_if_complete(session: Session, worker: TaskWorker) -> bool:
    row = cloud.record(session, worker.now())
    if row is None or row.safe_since is None or silent(session, row) or not unexpected.is_empty(session):
        return False
    return cloud.end_safe_mode(session, row, worker.now())


def silent(session: Session, row: CloudRecord) -> dict[str, tuple[str, ...]]:
    """Returns the hosts and image stores, by kind, that have not reported since safe mode began. Empty: all have."""
    since = row.safe_since or 0.0
    hosts, stores = cloud.reported_at(session, HOST), cloud.reported_at(session, STORE)
    computes = {host for _, _, host, binary in services.keys(session) if binary == COMPUTE}
    late_by_kind = {
        HOST: tuple(sorted(host for host in computes if hosts.get(host, -1.0) < since)),
        STORE: tuple(sorted(store for store, at in stores.items() if at < since)),
    }
    return {kind: names for kind, names in late_by_kind.items() if names}
