"""Resources held on a node for something that is under way: leaving the `with` by an exception gives them back."""

import logging
from types import TracebackType
from typing import Protocol, Self

import msgspec

from minova.context import RequestContext
from minova.objects.instance import Instance
from minova.objects.migration import Migration

LOG = logging.getLogger(__name__)


class Holder(Protocol):
    """Where it is held: a ResourceTracker."""

    def release(self, ctx: RequestContext, instance_uuid: str) -> None: ...

    def note_move(self, ctx: RequestContext, instance: Instance, migration: Migration) -> None: ...


class Claim:
    """An instance's; `instance` is as the conductor made it with the claim."""

    def __init__(self, tracker: Holder, ctx: RequestContext, instance: Instance) -> None:
        self.instance = instance
        self._tracker = tracker
        self._ctx = ctx

    def abort(self) -> None:
        LOG.debug("Aborting claim of instance %s", self.instance.uuid)
        self._tracker.release(self._ctx, self.instance.uuid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.abort()


class NopClaim(Claim):
    """With a driver that reports no resources nothing is held."""

    def abort(self) -> None:
        pass


class MoveClaim(Claim):
    """The destination's of a resize, migration or evacuation; `migration` is as the conductor made it with the claim.

    It stays until the move is confirmed, reverted or fails.
    """

    def __init__(self, tracker: Holder, ctx: RequestContext, instance: Instance, migration: Migration) -> None:
        super().__init__(tracker, ctx, instance)
        self.migration = migration

    def abort(self) -> None:
        LOG.debug("Aborting move claim of instance %s", self.instance.uuid)
        self._tracker.note_move(self._ctx, self.instance, msgspec.structs.replace(self.migration, status="error"))


class NopMoveClaim(MoveClaim):
    """As NopClaim."""

    def abort(self) -> None:
        pass
