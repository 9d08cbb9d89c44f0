"""An outage is two lines of the log, however many notice it."""

import logging

import pytest

from minova import errors, service
from minova.outages import MOST_KINDS, Failures, FirstOfEachKind, Outage
from minova.service import FailureLog

LOG = logging.getLogger("test.outages")


def test_an_outage_is_one_line_when_it_begins_and_one_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    outage = Outage("The database", LOG, lambda: now, gauge="test")
    outage.answered()
    for _ in range(1000):
        outage.failed("connection refused")
    now = 12.5
    outage.answered()
    outage.answered()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        "The database does not answer: connection refused",
        "The database answers again after 12.5 s; 999 more failures were not logged",
    ]


def test_bug_outage_hides_that_its_reason_has_changed(caplog: pytest.LogCaptureFixture) -> None:
    """Refused at first, then an expired certificate: the log knew only the first."""
    now = 0.0
    outage = Outage("The broker", LOG, lambda: now, gauge="test")
    for now in (0.0, 1.0, 2.0):
        outage.failed(f"[Errno 111] refused, port {now}")
    now = 3.0
    outage.failed("certificate has expired")
    for _ in range(2):  # both in turn are no news
        outage.failed("[Errno 111] refused, port 5")
        outage.failed("certificate has expired")
    now = 603.5
    outage.failed("certificate has expired")
    outage.failed("[Errno 111] refused, port 5")  # one line in ten minutes, not one for each
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        "The broker does not answer: [Errno 111] refused, port 0.0",
        "The broker has not answered for 3 s: certificate has expired",
        "The broker has not answered for 604 s: certificate has expired",
    ]


def test_of_a_library_the_first_line_of_each_kind_passes() -> None:
    now = 0.0
    passes = FirstOfEachKind(lambda: now)

    def said(text: str, level: int = logging.ERROR) -> bool:
        return passes(logging.LogRecord("x", level, "x", 1, text, None, None))

    assert [said("%s is unreachable"), said("%s is unreachable"), said("%s has closed")] == [True, False, True]
    now = 50.0
    assert not said("%s is unreachable")
    assert said("anything", logging.INFO)
    assert said("anything", logging.INFO)
    now = 111.0
    assert said("%s is unreachable")


def test_bug_library_hid_the_reason_of_an_outage_that_changed() -> None:
    """An idle conductor said nothing of an expired certificate: oslo.messaging logs each reason with the same message."""
    passes = FirstOfEachKind(lambda: 0.0)

    def said(connection: str, port: int, reason: str) -> bool:
        text = "[%s] AMQP server on %s:%s is unreachable: %s. Trying again in %d seconds."
        return passes(
            logging.LogRecord("x", logging.ERROR, "x", 1, text, (connection, "127.0.0.1", port, reason, 1), None)
        )

    refused, expired = "[Errno 111] ECONNREFUSED", "certificate verify failed: certificate has expired (_ssl.c:992)"
    assert said("d3b1c7e0-aaaa-4f8e-9d5c-0c7a8b1f2e11", 40001, refused)
    assert not said("0c7a8b1f-2e11-4bbb-bbbb-d3b1c7e09d5c", 40002, refused)
    assert said("0c7a8b1f-2e11-4bbb-bbbb-d3b1c7e09d5c", 40002, expired)
    assert not said("d3b1c7e0-aaaa-4f8e-9d5c-0c7a8b1f2e11", 40001, expired)


def test_a_periodic_task_that_fails_again_and_again_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    failing = FailureLog("flush")
    failing.worked()
    for _ in range(100):
        failing.failed(RuntimeError("no"), exc_info=True)
    failing.failed(RuntimeError("another"), exc_info=True)
    failing.worked()
    levels = [record.levelname for record in caplog.records]
    assert levels == ["ERROR", "ERROR", "INFO"]
    assert "works again after" in caplog.records[-1].getMessage()


def test_failures_of_a_periodic_task_in_turn_are_one_line_each_and_one_each_ten_minutes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of two errors in turn was news after the other, and nothing was said of a task that failed for days."""
    now = 0.0
    monkeypatch.setattr(service, "Failures", lambda: Failures(lambda: now))
    failing = FailureLog("flush")
    for now in range(0, 1200, 50):
        failing.failed(errors.NotFound("no"))
        failing.failed(RuntimeError(f"broken at {now}"), exc_info=True)
    assert [record.levelname for record in caplog.records if record.levelno >= logging.WARNING] == [
        "WARNING",
        "ERROR",
        "WARNING",
    ]


def test_kinds_without_end_are_not_kept() -> None:
    failures = Failures(lambda: 0.0)
    assert all(failures.note(kind) for kind in ["a", *map(str, range(MOST_KINDS)), "a"])
    assert not failures.note("a")
