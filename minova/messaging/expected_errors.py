"""Errors that oslo.messaging logs with a traceback and that are expected: the broker is away, a caller has gone, a message was
delivered twice. Each is one line here.
"""

import logging

import amqp.exceptions
import kombu.exceptions

from minova import errors
from minova.concurrency import threads

threads.use_native()

import oslo_messaging  # noqa: E402
from oslo_messaging._drivers import common as driver_common  # noqa: E402

BROKER_ERRORS = (
    oslo_messaging.MessageDeliveryFailure,
    kombu.exceptions.OperationalError,
    amqp.exceptions.AMQPError,
    OSError,
)
_EXPECTED = (
    *BROKER_ERRORS,
    oslo_messaging.MessageUndeliverable,
    oslo_messaging.MessagingTimeout,
    driver_common.DuplicateMessageError,
    driver_common.Timeout,
    errors.ServiceUnavailable,
)
# The error of a method of ours, which no outage of the broker explains.
_OF_OUR_WORK = "Exception during message handling"
_LOGGERS = (
    "oslo_messaging.rpc.server",
    "oslo_messaging._drivers.amqpdriver",
    "oslo_messaging._drivers.common",
    "oslo.messaging._drivers.impl_rabbit",
    "oslo.messaging._drivers.pool",
    # Of the thread that receives answers, which oslo.messaging repeats for ever.
    "oslo_utils.excutils",
)


def log_in_one_line() -> None:
    """Take the tracebacks of expected errors out of oslo.messaging's log lines."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_one_line)


def _one_line(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, _EXPECTED) and not str(record.msg).startswith(_OF_OUR_WORK):
        record.msg, record.args = f"{record.getMessage()}: {type(error).__name__}: {error}", None
        record.exc_info = record.exc_text = None
        if record.levelno > logging.WARNING:
            record.levelno, record.levelname = logging.WARNING, "WARNING"
    return True
