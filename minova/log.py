"""Logging by oslo.log, with the request ID in every line."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from oslo_config import cfg
from oslo_context import context as oslo_context
from oslo_log import formatters, log

from minova import errors
from minova.context import RequestContext, service_context
from minova.outages import HAS_REASON, FirstOfEachKind

# These loggers are chatty below WARNING and never report on minova's own work.
_NAMES = (
    "alembic",
    "amqp",
    "asyncio",
    "kombu",
    "oslo_concurrency",
    "oslo.messaging",
    "oslo_service",
    "sqlalchemy",
    "uvicorn",
)
# The notification driver `log` uses a logger under oslo.messaging's name. It must stay visible.
_QUIET = [*(f"{name}=WARNING" for name in _NAMES), "oslo.messaging.notification=INFO"]

# With the in-memory transport of minova-standalone, oslo.messaging warns at every connection that this transport is in
# use. Nothing else of that logger is hidden, because it also reports a broker that cannot be reached.
_RABBIT = "oslo.messaging._drivers.impl_rabbit"
_CALLS = "oslo_messaging._drivers.amqpdriver"
# While the broker is away, these loggers repeat their message for each connection at each try; the last, for each request while Keystone is.
_REPETITIVE = (
    _RABBIT,
    _CALLS,
    "oslo.messaging._drivers.pool",
    "oslo_messaging._drivers.common",
    "amqp",
    "kombu.connection",
    "keystonemiddleware.auth_token",
)
_NOISE = (
    "Selecting the kombu transport",
    "Heartbeat support requested but it is not supported by the kombu driver",
)
_summary = formatters._get_error_summary

# What oslo.log raises itself, and lets through from classes of handlers, levels and facilities.
_SETUP_ERRORS = (
    log.LogConfigError,
    OSError,
    ImportError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    RuntimeError,
    SyntaxError,
    NameError,
)


def register(conf: cfg.ConfigOpts) -> None:
    """Add oslo.log's options; call before the configuration is read."""
    log.register_options(conf)
    log.set_defaults(default_log_levels=_QUIET)


def setup(conf: cfg.ConfigOpts) -> None:
    """Raises InvalidConfiguration with the option if the log cannot be written as it says."""
    try:
        log.setup(conf, "minova")
    except _SETUP_ERRORS as error:
        names = _faulty(conf, error)
        options = ", ".join(f"[DEFAULT] {name} = {_value_text(conf[name])}" for name in names)
        raise errors.InvalidConfiguration(f"{options}{_files(conf, names)}: {error}") from None
    hide_noise()
    logging.setLogRecordFactory(OneLine)
    formatters._get_error_summary = _what_the_line_lacks


class OneLine(logging.LogRecord):
    """A record whose message is one line of printable characters: hosts and users have written parts of it, and would forge lines, or
    act on the terminal of those who read the log.
    """

    def getMessage(self) -> str:  # noqa: N802  - a name of logging
        return escaped(super().getMessage())


def escaped(text: str) -> str:
    """Returns the text with its control characters in the form that Python writes them in."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _what_the_line_lacks(record: logging.LogRecord) -> str:
    """oslo.log appends the error that is being handled to each line: not to one that has its text, or says that it has its reason."""
    if hasattr(record, HAS_REASON):
        return ""
    text = escaped(str(sys.exc_info()[1] or ""))
    return "" if text and not record.exc_info and text in record.getMessage() else escaped(str(_summary(record)))


def _faulty(conf: cfg.ConfigOpts, error: Exception) -> list[str]:
    """Returns the options that oslo.log cannot follow."""
    if conf.log_config_append:
        return ["log_config_append"]  # the others are not looked at
    if isinstance(error, TypeError) and (conf.use_syslog or conf.use_journal):
        return ["syslog_log_facility"]
    if isinstance(error, ValueError):
        return ["default_log_levels"]
    return [name for name in ("log_file", "log_dir", "use_syslog", "use_journal", "publish_errors") if conf[name]]


def _value_text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _files(conf: cfg.ConfigOpts, names: list[str]) -> str:
    """Returns the files that set these options."""
    places = dict.fromkeys(place.detail for name in names if (place := conf.get_location(name)) is not None)
    return f" in {', '.join(places)}" if places else ""


def hide_noise() -> None:
    logging.getLogger(_RABBIT).addFilter(_is_of_use)
    for name in _REPETITIVE:
        logging.getLogger(name).addFilter(FirstOfEachKind())
    # oslo.messaging warns of many parallel calls. Up to the number of threads they are normal.
    logging.getLogger(_CALLS).addFilter(_is_no_number_of_calls)


def _is_of_use(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_NOISE)


def _is_no_number_of_calls(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Number of call queues is")


class Delivery:
    """One delivery of a message that must not be executed twice. `noted`: the database has its ID."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.noted = False


class _Bound(oslo_context.RequestContext):
    delivery: Delivery | None = None


@contextmanager
def bound_request(ctx: RequestContext) -> Iterator[None]:
    """While the block runs, this thread's log lines carry the request id of `ctx`, and `bound_delivery` returns the
    delivery of its message.
    """
    before = oslo_context.get_current()
    bound = _Bound(
        request_id=ctx.request_id,
        user_id=ctx.user_id or None,
        project_id=ctx.project_id or None,
        overwrite=False,
    )
    bound.delivery = Delivery(ctx.message) if ctx.message else None
    bound.update_store()
    try:
        yield
    finally:
        if before is not None:
            before.update_store()
        else:
            del oslo_context._request_store.context


def bound_delivery() -> Delivery | None:
    """Returns the delivery that this thread works for, if its message must not be executed twice."""
    bound = oslo_context.get_current()
    return bound.delivery if isinstance(bound, _Bound) else None


def bound_context() -> RequestContext:
    """Returns the context of the request that this thread works for, or a context of the service's own if there is
    none.
    """
    bound = oslo_context.get_current()
    if bound is None:
        return service_context()
    return RequestContext(request_id=bound.request_id, user_id=bound.user_id or "", project_id=bound.project_id or "")
