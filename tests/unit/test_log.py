"""What oslo.messaging says for no reason is hidden, and nothing else of it."""

import logging
import subprocess
import sys

import pytest
from oslo_config import cfg
from oslo_messaging._drivers import amqpdriver, common, impl_rabbit, pool

from minova import errors, log
from minova.outages import HAS_REASON

RABBIT = logging.getLogger("oslo.messaging._drivers.impl_rabbit")


@pytest.mark.parametrize(
    ("said", "words", "heard"),
    [
        ("Selecting the kombu transport through the transport url (%s) is a experimental feature", "kombu", False),
        ("Heartbeat support requested but it is not supported by the kombu driver or the broker", None, False),
        ("[%s] AMQP server on broker:5672 is unreachable: connection refused.", "id", True),
        ("Unable to connect to AMQP server on %s", "broker:5672", True),
    ],
)
def test_the_broker_is_heard_and_the_in_memory_transport_is_not(
    said: str, words: str | None, heard: bool, caplog: pytest.LogCaptureFixture
) -> None:
    log.hide_noise()
    RABBIT.warning(said, *([words] if words else []))
    assert bool(caplog.records) == heard


def test_the_notification_driver_log_is_read_by_default() -> None:
    conf = cfg.ConfigOpts()
    log.register(conf)
    conf([], project="minova", default_config_files=[])
    levels = dict(each.split("=") for each in conf.default_log_levels)
    assert (levels["oslo.messaging"], levels["oslo.messaging.notification"]) == ("WARNING", "INFO")


def test_as_many_calls_as_there_are_threads_are_no_leak(caplog: pytest.LogCaptureFixture) -> None:
    """oslo.messaging's words of more than ten calls at the same time, which plain load makes."""
    log.hide_noise()
    calls = amqpdriver.LOG
    calls.warning(
        "Number of call queues is %(n)d, greater than the warning threshold: %(t)d. There could be a leak.",
        {"n": 11, "t": 10},
    )
    calls.warning("something else")
    assert caplog.messages == ["something else"]


def test_the_loggers_that_repeat_themselves_are_there_by_name() -> None:
    """Some modules of oslo.messaging log below `oslo.messaging`, others below `oslo_messaging`."""
    assert {module.LOG.name for module in (amqpdriver, common, impl_rabbit, pool)} <= {*log._REPETITIVE}


@pytest.mark.parametrize(
    ("said", "has_reason", "appended"),
    [
        ("Registration: refused", False, ""),
        ("Registration", False, "OSError: refused"),
        ("Glance answers again", True, ""),
    ],
)
def test_bug_lines_had_their_reason_twice(said: str, has_reason: bool, appended: str) -> None:
    record = logging.LogRecord("minova", logging.WARNING, "x", 1, said, None, None)
    if has_reason:
        setattr(record, HAS_REASON, True)
    try:
        raise OSError("refused")
    except OSError:
        assert log._what_the_line_lacks(record) == appended


FORGED = """
import logging, sys
from oslo_config import cfg
from minova import log
conf = cfg.ConfigOpts()
log.register(conf)
conf([], project="minova", default_config_files=[])
log.setup(conf)
reason = "x\\x1b[2J\\n2026-01-01 00:00:00.000 1 ERROR minova.conductor Host b was fenced\\x1b]0;owned\\x07\\x9b2J"
logger = logging.getLogger("minova.conductor")
logger.warning("Compute of host %s: cannot work: %s", "a", reason)
try:
    raise OSError(reason)
except OSError:
    logger.warning("Registration")
"""


def test_bug_host_forged_lines_of_the_log() -> None:
    """The reason for which a host is down, or has failed a build, is its own text. In a process of its own: oslo.log takes over the
    handlers of all loggers.
    """
    shown = subprocess.run([sys.executable, "-c", FORGED], capture_output=True, text=True, check=True).stdout
    lines = shown.splitlines()
    assert len(lines) == 2
    assert all(line.isprintable() and r"x\x1b[2J" in line for line in lines)
    assert r"\n2026-01-01 00:00:00.000 1 ERROR" in lines[0]


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (errors.ServiceUnavailable("The database does not answer.", reason="connection refused"), logging.DEBUG),
        (errors.ServiceUnavailable("No conductor service has answered in time."), logging.WARNING),
    ],
)
def test_bug_each_work_repeated_the_outage_of_the_database(error: Exception, level: int) -> None:
    """The database of this process has logged its outage with the reason."""
    assert errors.level_of(error) == level
