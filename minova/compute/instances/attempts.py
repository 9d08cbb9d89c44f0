"""The build attempts that this host has seen, and how they ended. They make builds idempotent by (uuid, attempt).

      begin             end
    (nothing) --> RUNNING --> SUCCEEDED | FAILED | STALE      a higher attempt begins anew; a lower one is ignored

They are kept in memory only: after a restart `init_host` and the first audit derive them from domains and rows.
"""

import threading
from collections.abc import Container
from enum import Enum

import msgspec

from minova.objects.servers.chosen_hardware import ChosenHardware
from minova.objects.servers.failures import INTERNAL_ERROR
from minova.objects.servers.states import PowerState


class End(Enum):
    """The state of an attempt."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STALE = "stale"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The report of an ended attempt to the conductor; it is repeated until the conductor has it.

    `kind` is one of `objects/servers/failures.py`. If `fault_of_host` is False, the failure does not count against the host,
    because other builds may succeed here. `built_before`: the attempt had built its guest before, so that this is not its
    first report. `hardware`: see `BuildReport`.
    """

    end: End
    power_state: PowerState = PowerState.NOSTATE
    reason: str = ""
    kind: str = INTERNAL_ERROR
    retriable: bool = True
    fault_of_host: bool = True
    built_before: bool = False
    hardware: ChosenHardware | None = None


class _AttemptOnNode(msgspec.Struct, frozen=True, kw_only=True):
    attempt: int
    node: str
    outcome: Outcome


RUNNING = Outcome(end=End.RUNNING)


class Attempts:
    """Safe for threads."""

    def __init__(self) -> None:
        self._seen: dict[str, _AttemptOnNode] = {}
        # {instance uuid: its last attempt when its removal was requested}
        self._cancelled: dict[str, int] = {}
        self._lock = threading.Lock()

    def begin(self, instance_uuid: str, attempt: int, node: str) -> bool:
        """Returns whether this attempt is new here; then it counts as running from now on."""
        with self._lock:
            known_attempt = self._seen.get(instance_uuid)
            if known_attempt is not None and attempt <= known_attempt.attempt:
                return False
            self._seen[instance_uuid] = _AttemptOnNode(attempt=attempt, node=node, outcome=RUNNING)
            return True

    def end(self, instance_uuid: str, attempt: int, node: str, outcome: Outcome) -> None:
        with self._lock:
            known_attempt = self._seen.get(instance_uuid)
            if known_attempt is None or attempt >= known_attempt.attempt:
                self._seen[instance_uuid] = _AttemptOnNode(attempt=attempt, node=node, outcome=outcome)

    def outcome(self, instance_uuid: str, attempt: int) -> Outcome | None:
        """Returns the outcome of exactly this attempt; None if it was not seen here."""
        with self._lock:
            known_attempt = self._seen.get(instance_uuid)
            return known_attempt.outcome if known_attempt is not None and known_attempt.attempt == attempt else None

    def latest(self, instance_uuid: str) -> int | None:
        """Returns the number of the latest attempt seen here, or None."""
        with self._lock:
            known_attempt = self._seen.get(instance_uuid)
            return known_attempt.attempt if known_attempt is not None else None

    def cancel(self, instance_uuid: str) -> None:
        """Cancels the attempts seen here so far, because the instance is to be removed."""
        with self._lock:
            known_attempt = self._seen.get(instance_uuid)
            if known_attempt is not None:
                self._cancelled[instance_uuid] = known_attempt.attempt

    def is_cancelled(self, instance_uuid: str, attempt: int) -> bool:
        with self._lock:
            return self._cancelled.get(instance_uuid, -1) >= attempt

    def removed(self, instance_uuid: str) -> None:
        """Drops the cancellation: the instance is gone."""
        with self._lock:
            self._cancelled.pop(instance_uuid, None)

    def newer(self, instance_uuid: str, attempt: int | None) -> bool:
        """Whether a later attempt than this one runs or succeeded here."""
        with self._lock:
            known_attempt = self._seen.get(instance_uuid)
            alive = known_attempt is not None and known_attempt.outcome.end in {End.RUNNING, End.SUCCEEDED}
            return known_attempt is not None and alive and attempt is not None and known_attempt.attempt > attempt

    def give_back(self, instance_uuid: str, attempt: int) -> None:
        """Drop an attempt that was begun here and did not run after all, so that it can begin again."""
        with self._lock:
            known_attempt = self._seen.get(instance_uuid)
            if (
                known_attempt is not None
                and known_attempt.attempt == attempt
                and known_attempt.outcome.end is End.RUNNING
            ):
                del self._seen[instance_uuid]

    def forget(self, instance_uuid: str) -> None:
        with self._lock:
            self._seen.pop(instance_uuid, None)

    def forget_ended(self, node: str, still_open: Container[str]) -> None:
        """Drop ended attempts of a node that the conductor does not count as open: the conductor has received their
        reports.

        `claim_instance` refuses a late repetition of a dropped attempt.
        """
        with self._lock:
            self._seen = {
                uuid: known_attempt
                for uuid, known_attempt in self._seen.items()
                if known_attempt.node != node or known_attempt.outcome.end is End.RUNNING or uuid in still_open
            }
