"""oslo.messaging logged outages of the broker, callers that had gone and second deliveries with tracebacks."""

import logging

import oslo_messaging
import pytest
from oslo_messaging._drivers import common

from minova.messaging import rpc

assert rpc  # its import changes the loggers

EXPECTED = [
    oslo_messaging.MessageUndeliverable(None, "", "reply_1", None),
    oslo_messaging.MessageDeliveryFailure("the broker is away"),
    ConnectionResetError("reset"),
    common.DuplicateMessageError(msg_id="1"),
]
LOGGERS = ["oslo_messaging.rpc.server", "oslo_messaging._drivers.amqpdriver", "oslo_utils.excutils"]


@pytest.mark.parametrize("name", LOGGERS)
@pytest.mark.parametrize("error", EXPECTED, ids=lambda error: type(error).__name__)
def test_an_expected_error_is_one_line(caplog: pytest.LogCaptureFixture, name: str, error: Exception) -> None:
    log(name, error)
    (line,) = caplog.records
    assert (line.exc_info, line.exc_text, line.levelname) == (None, None, "WARNING")
    assert type(error).__name__ in line.getMessage()
    assert "Can not send reply for 100 %" in line.getMessage()


@pytest.mark.parametrize(
    ("error", "words"),
    [(KeyError("x"), "Can not send reply for %s"), (FileNotFoundError("x"), "Exception during message handling %s")],
)
def test_another_error_has_its_traceback(caplog: pytest.LogCaptureFixture, error: Exception, words: str) -> None:
    log(LOGGERS[0], error, words)
    (line,) = caplog.records
    assert line.exc_info
    assert line.levelno == logging.ERROR


def log(name: str, error: Exception, words: str = "Can not send reply for %s") -> None:
    try:
        raise error
    except Exception:
        logging.getLogger(name).exception(words, "100 %")
