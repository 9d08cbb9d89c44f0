"""An outage, a refusal with its reason and work that a stop abandons printed tracebacks; each is one line now."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import oslo_messaging
import pytest

from minova import errors
from minova.concurrency import threads
from minova.concurrency.daemon_pool import DaemonPool
from minova.contracts.scheduler import SchedulerApi
from minova.messaging.dispatch import Endpoint, Implementation
from minova.service import PeriodicTask, run_periodic, within
from tests.functional.scheduler.cloud import CTX, spec_of

EXPECTED = [
    errors.NoAnswer("No answer to x in time."),
    errors.Conflict("Instance x is building"),
    errors.Abandoned(),
]


class Once(threading.Event):
    """Lets a periodic task run once."""

    def __init__(self) -> None:
        super().__init__()
        self._left = 1

    def wait(self, timeout: float | None = None) -> bool:
        self._left -= 1
        return self._left < 0


def in_a_periodic_task(work: Callable[[], Any]) -> None:
    run_periodic(PeriodicTask(name="task", interval=1, work=work), Once())


def in_a_pool(work: Callable[[], Any]) -> None:
    pool = DaemonPool("builds", 1)
    pool.spawn(work)
    pool.stop(time.monotonic() + 60)


def in_a_thread(work: Callable[[], Any]) -> None:
    thread = threading.Thread(target=work, name="beats")
    thread.start()
    thread.join(60)


@pytest.mark.parametrize("error", EXPECTED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("run", [in_a_periodic_task, in_a_pool])
def test_what_is_expected_is_one_line(
    caplog: pytest.LogCaptureFixture, run: Callable[[Callable[[], Any]], None], error: BaseException
) -> None:
    with caplog.at_level(logging.INFO):
        run(lambda: _raise(error))
    (line,) = caplog.records
    assert line.exc_info is None
    assert line.levelno < logging.ERROR


@pytest.mark.parametrize("run", [in_a_periodic_task, in_a_pool])
def test_what_is_not_expected_has_its_traceback(
    caplog: pytest.LogCaptureFixture, run: Callable[[Callable[[], Any]], None]
) -> None:
    run(lambda: _raise(KeyError("x")))
    (line,) = caplog.records
    assert line.exc_info
    assert line.levelno == logging.ERROR


@pytest.mark.parametrize(("error", "traceback"), [(errors.Abandoned(), False), (KeyError("x"), True)])
def test_a_thread_that_a_stop_abandons_is_one_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, error: BaseException, traceback: bool
) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    threads.log_uncaught()
    with caplog.at_level(logging.INFO):
        in_a_thread(lambda: _raise(error))
    (line,) = caplog.records
    assert bool(line.exc_info) is traceback


def test_a_stop_that_meets_an_outage_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    assert within(60.0, "the server", lambda: _raise(errors.ServiceUnavailable("away")))
    (line,) = caplog.records
    assert line.exc_info is None


def test_a_caller_of_work_that_a_stop_abandons_hears_that_the_service_stops() -> None:
    class Manager:
        def __getattr__(self, name: str) -> Any:
            return lambda ctx, **arguments: _raise(errors.Abandoned())

    endpoint: Any = Endpoint(Implementation(parts=(Manager(),)), SchedulerApi)
    with pytest.raises(oslo_messaging.ExpectedException) as raised:
        endpoint.capacity(CTX, spec=msgspec.to_builtins(spec_of()), limit=1)
    assert isinstance(raised.value.exc_info[1], errors.ServiceUnavailable)


def _raise(error: BaseException) -> Any:
    raise error
