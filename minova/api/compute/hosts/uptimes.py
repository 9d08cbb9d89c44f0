"""How long hosts have been up, as they answer now."""

import logging
import time
from collections.abc import Callable, Collection
from functools import partial
from queue import Empty, SimpleQueue

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.concurrency.daemon_pool import DaemonPool
from minova.context import RequestContext

LOG = logging.getLogger(__name__)

# Hosts that one request asks at the same time, and seconds that it waits for all of them.
PARALLEL, PATIENCE = 16, 5.0


def ask(api: ComputeApiCollaborators, ctx: RequestContext, hosts: Collection[str]) -> dict[str, str]:
    """Returns the answers of these hosts. Hosts that cannot answer in time are left out, as in Nova."""
    answers: SimpleQueue[tuple[str, str | None]] = SimpleQueue()
    pool = DaemonPool("uptimes", PARALLEL)
    for host in hosts:
        pool.spawn(partial(_ask, api, ctx, host, answers.put))
    uptime_by_host: dict[str, str] = {}
    until = time.monotonic() + PATIENCE
    for _ in hosts:
        try:
            host, text = answers.get(timeout=max(0.0, until - time.monotonic()))
        except Empty:
            LOG.warning("Some of %d hosts have not told within %g s how long they have been up", len(hosts), PATIENCE)
            break
        if text is not None:
            uptime_by_host[host] = text
    pool.stop(0.0)
    return uptime_by_host


def _ask(
    api: ComputeApiCollaborators, ctx: RequestContext, host: str, answer: Callable[[tuple[str, str | None]], None]
) -> None:
    try:
        answer((host, api.compute(host).get_host_uptime(ctx)))
    except errors.MinovaError as error:  # also of an older compute
        LOG.info("Host %s does not tell how long it has been up: %s", host, error)
        answer((host, None))
