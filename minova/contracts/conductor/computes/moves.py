"""Calls of computes about moves."""

from typing import Protocol

from minova.context import RequestContext
from minova.contracts.base import call
from minova.contracts.conductor.audiences import BY_COMPUTES
from minova.objects.hosts.bounds import Line
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.servers.live_migration import LiveProgress
from minova.objects.servers.migration import Migration, MoveState
from minova.objects.servers.moves import MigrationOrder, PhaseKey, PhaseResult


@BY_COMPUTES
class MoveReportsApi(Protocol):
    @call(since="1.2")
    def claim_move(self, ctx: RequestContext, *, migration: Migration, node: ComputeNode) -> Migration:
        """Record the destination's claim: its place and topology in the migration, usage and devices in its node.
        Idempotent.

        Raises StaleAttempt if the migration is over or has another destination, and ComputeResourcesUnavailable as
        `claim_instance`.
        """
        ...

    @call(since="1.2")
    def step_move(self, ctx: RequestContext, *, migration_uuid: Line, status: Line, host: Line) -> MoveState:
        """Of 0.1.0, which never called it. Raises StaleAttempt: the conductor takes each step of a move."""
        ...


@BY_COMPUTES
class MovePhasesApi(Protocol):
    @call(since="1.9")
    def begin_phase(self, ctx: RequestContext, *, phase: PhaseKey, host: Line) -> None:
        """Checks that the move is still in this phase, on this host. Each report restarts the time after which the host is
        asked again, so the host repeats it during long work.

        Raises StaleAttempt if it is not. The host must then change nothing more.
        """
        ...

    @call(since="1.9")
    def phase_ended(self, ctx: RequestContext, *, phase: PhaseKey, host: Line, result: PhaseResult) -> bool:
        """The host has done this phase of the move, or could not. Idempotent; a stale report is ignored.

        Returns False if what the host has done counts no more: the move was given up while the host claimed for it, or the server is
        another host's again although this one has started its guest.
        """
        ...

    @call(since="1.9")
    def migration_progress(
        self, ctx: RequestContext, *, phase: PhaseKey, host: Line, progress: LiveProgress
    ) -> MigrationOrder:
        """A guest migrates live from this host. Returns what its users want meanwhile; an order is repeated until the
        phase ends. Also a sign of life, as `begin_phase`, and raises as that.
        """
        ...
