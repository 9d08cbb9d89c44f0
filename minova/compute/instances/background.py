"""Runs work of a compute in the background, in the context of the request to which it belongs."""

import logging
from collections.abc import Callable

from minova.compute.instances.attempts import End, Outcome
from minova.compute.instances.builds import Builder
from minova.compute.instances.workers import GuestWorkers
from minova.context import RequestContext
from minova.log import bound_request
from minova.objects.servers.build import BuildMessage
from minova.safe_mode import SafeMode

LOG = logging.getLogger(__name__)
# The kind of work, and the uuid of the instance.
What = tuple[str, str]


class Background:
    """Begins builds and other work in the threads of `workers`. In safe mode it begins nothing: conductors and audits
    request it again.
    """

    def __init__(self, workers: GuestWorkers, builder: Builder, safe_mode: SafeMode | None = None) -> None:
        self._safe_mode = safe_mode or SafeMode()
        self._workers = workers
        self._builder = builder

    def build(self, ctx: RequestContext, build: BuildMessage) -> None:
        """Begin the build, unless this or a later attempt has begun here."""
        if self._is_held("build", build.instance.uuid):
            return
        attempts = self._builder.attempts
        if not attempts.begin(build.instance.uuid, build.attempt, build.node):
            LOG.debug("Attempt %d of instance %s has been seen here", build.attempt, build.instance.uuid)
            return
        work = self._builder.build
        try:
            self._workers.build(build.instance.uuid, lambda: _in_request(ctx, lambda own: work(own, build)))
        except RuntimeError as error:  # no thread is available; an audit reports it to the conductor
            failed = Outcome(end=End.FAILED, reason=f"The build could not begin: {error}")
            attempts.end(build.instance.uuid, build.attempt, build.node, failed)
            raise

    def run(self, ctx: RequestContext, what: What, work: Callable[[], None]) -> bool:
        """Run a removal or an action; the same work is in progress once at a time. Returns False in safe mode. Raises
        RuntimeError if no thread is available.
        """
        return self._begin(ctx, what, work, self._workers.remove)

    def ask(self, ctx: RequestContext, what: What, work: Callable[[], None]) -> bool:
        """As `run`, of a question to a conductor, which waits for no work on the instance."""
        return self._begin(ctx, what, work, self._workers.ask)

    def _begin(
        self,
        ctx: RequestContext,
        what: What,
        work: Callable[[], None],
        begin: Callable[[What, Callable[[], None]], None],
    ) -> bool:
        if self._is_held(*what):
            return False
        begin(what, lambda: _in_request(ctx, lambda _: work()))
        return True

    def _is_held(self, kind: str, instance_uuid: str) -> bool:
        reason = self._safe_mode.reason
        if reason is not None:
            LOG.info("Not begun in safe mode: %s of %s", kind, instance_uuid)
        return reason is not None


def _in_request(ctx: RequestContext, work: Callable[[RequestContext], None]) -> None:
    with bound_request(ctx):
        work(ctx)
