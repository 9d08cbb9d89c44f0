"""What oslo.messaging logs of the broker. An outage is one line for each reason, whichever connection or call notices it first. Errors
that are expected (the broker is away, a caller has gone, a message was delivered twice) have no traceback.
"""

import logging
import re

import amqp.exceptions
import kombu.exceptions

from minova import errors
from minova.concurrency import threads
from minova.outages import Outage

threads.use_native()

import oslo_messaging  # noqa: E402
from oslo_messaging._drivers import common as driver_common  # noqa: E402

LOG = logging.getLogger(__name__)
OUTAGE = Outage("The message broker", LOG, gauge="broker")
# Seconds after the end of an outage.
LATE = 5.0
# Seconds in which all connections notice that the broker has ended them: an idle one notices by its heartbeat.
BURST = 60.0

_DRIVER = "oslo.messaging._drivers.impl_rabbit"
# What the driver logs for each connection at each try, with the reason.
_LINES = re.compile(
    r"(?:\[[^]]*\] )?(?:"
    r"AMQP server on \S+ is unreachable: (?P<unreachable>.*?)\. Trying again in -?\d+ seconds\."
    r"|AMQP server \S+ closed the connection\. Check login credentials: (?P<closed>.*)"
    r"|Connection failed: (?P<failed>.*) \(retrying in [\d.]+ seconds\)"
    r"|Unable to connect to AMQP server on \S+ after \S+ tries: (?P<unable>.*)"
    r"|Failed to publish message to topic '[^']*': (?P<publish>.*)"
    r"|Failed to consume message from queue: (?P<consume>.*)"
    r"|Failed to declare consumer for topic '[^']*': (?P<declare>.*)"
    r"|(?P<heartbeat>Unexpected error during heartbeat thread processing), retrying\.\.\."
    r")",
    re.DOTALL,
)
# The operation in which a connection broke is no reason.
_OPERATION = re.compile(r"[A-Za-z_.]+: (?=timed out$)")
# A broker that refuses one operation answers.
_REFUSED = re.compile(r"\b(?:Basic|Exchange|Queue)\.\w+: \(4\d\d\)")
_UNKNOWN = "the connection is broken"
_WORDS = {
    "<RecoverableConnectionError: unknown error>": _UNKNOWN,
    "the broker does not answer": "timed out",  # of a heartbeat
}

# How connections break that were open when the broker went away. Each sees another part of the same end.
_BROKEN = re.compile(
    r"CONNECTION_FORCED|connection is broken|EOF|BAD_LENGTH|[Bb]roken pipe|EPIPE|reset by peer|ECONNRESET"
    r"|[Ss]erver unexpectedly closed|[Ss]ocket closed|connection already closed|Bad frame read"
)

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


def use() -> None:
    """Let the driver's lines about its connections begin the outage, in place of lines of their own, and take the tracebacks of expected
    errors out of the others.
    """
    logging.getLogger(_DRIVER).addFilter(_is_something_else)
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


def reason_of(error: object) -> str:
    """Returns the reason without what oslo.messaging puts before it, so that all connections have the same reason."""
    text = str(error)
    match = _LINES.fullmatch(text)
    if match is not None:
        text = next(reason for reason in match.groups() if reason is not None)
    return _WORDS.get(text) or _OPERATION.sub("", text)


def failed(error: object) -> None:
    """Notes a failure of the broker. When an outage begins, broken connections are one reason; a connection whose end is not known is
    one at any time.
    """
    reason = reason_of(error)
    is_broken = reason == _UNKNOWN or (_BROKEN.search(reason) is not None and OUTAGE.began_within(BURST))
    OUTAGE.failed(reason, kind="broken" if is_broken else None)


def _is_something_else(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    match = _LINES.match(text) if record.levelno >= logging.WARNING else None
    if match is None or _REFUSED.search(text):
        return True
    # Another thread names the reason of a failed heartbeat. Connections that have not been used since the outage ended notice it late;
    # if the broker is away again, they will say so once more.
    if match["heartbeat"] is None and not OUTAGE.ended_within(LATE):
        failed(match[0])
    return False
