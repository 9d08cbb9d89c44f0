"""The RPC clients that the executables pass to their services."""

from collections.abc import Callable
from functools import cache

from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.contracts.scheduler import SchedulerApi
from minova.messaging.rpc import Rpc

# Seconds. Every call is safe to repeat, so a retry is better than a long wait for a peer that has died.
CALL_TIMEOUT = 8.0
# Seconds. The API repeats a call: it waits this long for the first answer, and CALL_TIMEOUT for the second.
FIRST_ANSWER = 4.0
SCHEDULE_TIMEOUT = 30.0
# Seconds, less than CALL_TIMEOUT: a person waits for the answer, and so does a thread that serves messages.
DRY_RUN_TIMEOUT = 6.0
# Services that answer people report after a few seconds that the broker is away. Other services wait until it is back.
TRIES_BEFORE_ERROR = 2


def conductor(rpc: Rpc, *, retry: int | None = None, timeout: float = CALL_TIMEOUT) -> ConductorApi:
    return rpc.client(ConductorApi, timeout=timeout, retry=retry)


def scheduler(rpc: Rpc) -> SchedulerApi:
    return rpc.client(SchedulerApi, timeout=SCHEDULE_TIMEOUT)


def dry_runs(rpc: Rpc) -> SchedulerApi:
    """Returns a client for queries that write nothing: they are answered soon or not at all."""
    return rpc.client(SchedulerApi, timeout=DRY_RUN_TIMEOUT, retry=TRIES_BEFORE_ERROR)


def compute(rpc: Rpc, *, retry: int | None = None) -> Callable[[str], ComputeApi]:
    """Returns a function that returns the client of a host, made on first use."""

    @cache
    def of_host(host: str) -> ComputeApi:
        return rpc.client(ComputeApi, server=host, timeout=CALL_TIMEOUT, retry=retry)

    return of_host
