"""RPC clients as the executables hand them to their services."""

from collections.abc import Callable
from functools import cache

from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.contracts.scheduler import SchedulerApi
from minova.messaging.rpc import Rpc

# Seconds. Every call is safe to repeat, so a caller does better to ask again than to wait long for one who has died.
CALL_TIMEOUT = 8.0
# The API repeats a call: it waits for so long for the first answer, and CALL_TIMEOUT for the second.
FIRST_ANSWER = 4.0
SCHEDULE_TIMEOUT = 30.0
# A person waits for the answer, and a thread that answers messages waits with them: less than CALL_TIMEOUT.
DRY_RUN_TIMEOUT = 6.0
# People are told after a few seconds that the broker is away; services wait until it is back, and go on.
TOLD_AFTER_TRIES = 2


def conductor(rpc: Rpc, *, retry: int | None = None, timeout: float = CALL_TIMEOUT) -> ConductorApi:
    return rpc.client(ConductorApi, timeout=timeout, retry=retry)


def scheduler(rpc: Rpc) -> SchedulerApi:
    return rpc.client(SchedulerApi, timeout=SCHEDULE_TIMEOUT)


def dry_runs(rpc: Rpc) -> SchedulerApi:
    """For questions that write nothing: an answer soon, or none."""
    return rpc.client(SchedulerApi, timeout=DRY_RUN_TIMEOUT, retry=TOLD_AFTER_TRIES)


def compute(rpc: Rpc, *, retry: int | None = None) -> Callable[[str], ComputeApi]:
    """A client for each host, made on first use."""

    @cache
    def of_host(host: str) -> ComputeApi:
        return rpc.client(ComputeApi, server=host, timeout=CALL_TIMEOUT, retry=retry)

    return of_host
