"""This host's part of moves: one phase at a time, under the lock of the instance.

begin_phase (is the move still in this phase here?) -> the phase -> phase_ended: done, or why not
                                       meanwhile: begin_phase, from time to time

A phase may begin again after an interruption, so each one looks first at what is there. A host starts a guest only after
a conductor has answered that the move is in a phase in which the row names this host.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping

from minova import errors
from minova.compute.conductor_retry import ConductorRetry
from minova.compute.instances.domains import Domains
from minova.compute.moves.phases import Phase, Reported
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.servers.moves import MoveMessage, MovePhase, PhaseResult

LOG = logging.getLogger(__name__)
# Seconds for which a report is repeated; afterwards the conductor requests the phase again.
PATIENCE = 60.0
# Seconds between signs of life of a long phase.
BEAT = 30.0


class PhaseCheck:
    """Called several times a second by long work. It raises StaleAttempt if the move has left the phase, or the server is
    being deleted. `cancelled` ends waits for the guest then.
    """

    def __init__(self, begin: Callable[[], None], clock: Callable[[], float]) -> None:
        self.cancelled = threading.Event()
        self._begin = begin
        self._clock = clock
        self._last = clock()

    def __call__(self) -> None:
        self._require_kept()
        if self._clock() - self._last < BEAT:
            return
        self._last = self._clock()
        self.require_wanted()

    def require_wanted(self) -> None:
        """Asks a conductor now. Raises as `__call__`."""
        self._require_kept()
        try:
            self._begin()
        except errors.ServiceUnavailable as error:
            LOG.debug("A later sign of life may arrive: %s", error)

    def _require_kept(self) -> None:
        if self.cancelled.is_set():
            raise errors.StaleAttempt("the server is being deleted")


class MoveRunner:
    """`reported`: what follows on a phase once a conductor has its report; `given_up`: if what the host has done does not count, because
    the move has left that phase before.
    `clock` returns monotonic seconds.
    """

    def __init__(
        self,
        host: str,
        conductor: ConductorApi,
        domains: Domains,
        phases: Mapping[MovePhase, Phase],
        reported: Mapping[MovePhase, Reported],
        *,
        given_up: Mapping[MovePhase, Reported],
        clock: Callable[[], float] = time.monotonic,
        repeat: ConductorRetry | None = None,
    ) -> None:
        self._host = host
        self._conductor = conductor
        self._domains = domains
        self._phases = phases
        self._reported = reported
        self._given_up = given_up
        self._clock = clock
        self._repeat = repeat or ConductorRetry()
        self._running: dict[str, PhaseCheck] = {}

    def run(self, ctx: RequestContext, move: MoveMessage) -> None:
        """Raises ServiceUnavailable if no conductor answers; then a conductor requests the phase again."""
        uuid = move.instance.uuid
        with self._domains.locked(uuid):
            check = self._running[uuid] = PhaseCheck(lambda: self._begin(ctx, move), self._clock)
            try:
                self._repeat("begin_phase", lambda: self._begin(ctx, move), PATIENCE)
                result = self._result(ctx, move, check)
            except errors.StaleAttempt as error:
                LOG.info("Instance %s is left as it is: %s", uuid, error)
                return
            finally:
                del self._running[uuid]
            counts = self._repeat("phase_ended", lambda: self._end(ctx, move, result), PATIENCE)
            reported = (self._reported if counts else self._given_up).get(move.phase)
            # A deletion meanwhile has ended the move, and its removal knows nothing of what would be noted now.
            if reported is not None and result.failure is None and not check.cancelled.is_set():
                reported(ctx, move)

    def cancel(self, instance_uuid: str) -> None:
        """Ends the phase of an instance that is to be removed."""
        running = self._running.get(instance_uuid)
        if running is not None:
            running.cancelled.set()

    def _result(self, ctx: RequestContext, move: MoveMessage, check: PhaseCheck) -> PhaseResult:
        """Raises StaleAttempt if the move has left this phase meanwhile, or the server is being deleted."""
        phase = self._phases.get(move.phase)
        LOG.info("Move %s of instance %s: %s", move.migration.uuid, move.instance.uuid, move.phase)
        try:
            if phase is None:
                raise errors.Conflict(f"this host knows no phase {move.phase}")
            return phase(ctx, move, check)
        except Exception as error:
            if isinstance(error, errors.StaleAttempt):
                check.require_wanted()  # another fence than that of the phase may have refused
            LOG.warning(
                "Move %s of instance %s failed in %s: %s",
                move.migration.uuid,
                move.instance.uuid,
                move.phase,
                error,
                exc_info=not isinstance(error, errors.MinovaError),
            )
            return PhaseResult.failed(error)

    def _begin(self, ctx: RequestContext, move: MoveMessage) -> None:
        self._conductor.begin_phase(ctx, phase=move.phase_key, host=self._host)

    def _end(self, ctx: RequestContext, move: MoveMessage, result: PhaseResult) -> bool:
        return self._conductor.phase_ended(ctx, phase=move.phase_key, host=self._host, result=result)
