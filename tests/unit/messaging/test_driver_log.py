"""An outage of the broker was a line for each way in which each connection noticed it: ten lines of a service that has nothing to do."""

import logging
import threading
from collections.abc import Iterator

import pytest

from minova.messaging import driver_log, rpc  # noqa: F401  - rpc puts the filter in place
from minova.messaging.driver_log import OUTAGE, reason_of
from minova.outages import HAS_REASON

DRIVER = logging.getLogger("oslo.messaging._drivers.impl_rabbit")
ID = "d3b1c7e0-aaaa-4f8e-9d5c-0c7a8b1f2e11"
UNREACHABLE = "[%s] AMQP server on %s:%s is unreachable: %s. Trying again in %d seconds."
EXPIRED = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired (_ssl.c:992)"


@pytest.fixture(autouse=True)
def answering_broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For a long time."""
    OUTAGE.answered()
    monkeypatch.setattr(OUTAGE, "_ended", float("-inf"))
    yield
    OUTAGE.answered()


def test_an_outage_of_all_connections_is_a_line_for_each_reason(caplog: pytest.LogCaptureFixture) -> None:
    refused = "[Errno 111] ECONNREFUSED"
    for port in (40001, 40002):
        DRIVER.error(UNREACHABLE, ID, "127.0.0.1", port, refused, 1)
    DRIVER.error("Connection failed: %s (retrying in %s seconds)", refused, 1.0)
    DRIVER.error("Failed to publish message to topic '%(topic)s': %(err_str)s", {"topic": "minova", "err_str": refused})
    DRIVER.error("Failed to declare consumer for topic '%s': %s", "conductor", refused)
    DRIVER.error("Failed to consume message from queue: %s", refused)
    DRIVER.error(f"Unable to connect to AMQP server on 127.0.0.1:40001 after 2 tries: {refused}")
    DRIVER.warning("Unexpected error during heartbeat thread processing, retrying...")
    OUTAGE.failed(reason_of(f"Unable to connect to AMQP server on 127.0.0.1:40001 after None tries: {refused}"))
    for _ in range(2):
        DRIVER.error(UNREACHABLE, ID, "127.0.0.1", 40001, EXPIRED, 1)
    OUTAGE.answered()
    first, second, third = [record.getMessage() for record in caplog.records]
    assert first == f"The message broker does not answer: {refused}"
    assert second.endswith(f" s: {EXPIRED}")
    assert third.startswith("The message broker answers again after ")


FORCED = "(0, 0): (320) CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
BROKEN = (
    FORCED,
    "Server unexpectedly closed connection",
    "[Errno 104] Connection reset by peer",
    "[Errno 32] Broken pipe",
    "[SSL: BAD_LENGTH] bad length (_ssl.c:2427)",
    "EOF occurred in violation of protocol (_ssl.c:2393)",
    "<RecoverableConnectionError: unknown error>",
)


def test_bug_stop_of_the_broker_was_a_line_for_each_end_of_a_connection(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(OUTAGE, "_ticks", lambda: now)
    for number, reason in enumerate(BROKEN):
        DRIVER.error(UNREACHABLE, ID, "127.0.0.1", 40000 + number, reason, 1)
    now = 102.0
    DRIVER.error(UNREACHABLE, ID, "127.0.0.1", 40001, "[Errno 111] ECONNREFUSED", 1)
    now = 109.0
    DRIVER.error(UNREACHABLE, ID, "127.0.0.1", 40001, BROKEN[-1], 1)
    now = 163.0
    DRIVER.error(UNREACHABLE, ID, "127.0.0.1", 40002, BROKEN[-1], 1)
    # A reason of its own: no connection was open any more.
    DRIVER.error(UNREACHABLE, ID, "127.0.0.1", 40001, "EOF occurred in violation of protocol (_ssl.c:992)", 1)
    assert [record.getMessage() for record in caplog.records] == [
        f"The message broker does not answer: {FORCED}",
        "The message broker has not answered for 2 s: [Errno 111] ECONNREFUSED",
        "The message broker has not answered for 63 s: EOF occurred in violation of protocol (_ssl.c:992)",
    ]


def test_connection_that_notices_the_outage_after_its_end_begins_no_other_one(caplog: pytest.LogCaptureFixture) -> None:
    OUTAGE.failed("refused")
    OUTAGE.answered()
    DRIVER.error(UNREACHABLE, ID, "127.0.0.1", 1, "<RecoverableConnectionError: unknown error>", 1)
    assert len(caplog.records) == 2


@pytest.mark.parametrize(
    "line",
    [
        "Queue conductor could not be declared",
        "Failed to declare consumer for topic 'conductor': Queue.declare: (403) ACCESS_REFUSED - access to queue 'conductor'",
    ],
)
def test_other_lines_of_the_driver_pass(line: str, caplog: pytest.LogCaptureFixture) -> None:
    DRIVER.warning("%s", line)
    assert [(record.name, record.getMessage()) for record in caplog.records] == [(DRIVER.name, line)]


@pytest.mark.parametrize(
    "text", ["timed out", "basic_publish: timed out", "the broker does not answer", "[Errno 104] reset"]
)
def test_operation_in_which_a_connection_broke_is_no_reason(text: str) -> None:
    assert reason_of(text) in ("timed out", "[Errno 104] reset")


def raise_no_thread(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_line_of_an_outage_does_not_name_the_exception_that_is_handled(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it need a thread: there is none at the shutdown of the process."""
    monkeypatch.setattr(threading.Thread, "start", raise_no_thread)
    try:
        raise ConnectionRefusedError
    except ConnectionRefusedError:
        DRIVER.error(UNREACHABLE, ID, "127.0.0.1", 1, "refused", 1)
        OUTAGE.answered()
    assert [hasattr(record, HAS_REASON) for record in caplog.records] == [True, True]
