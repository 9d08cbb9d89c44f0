"""Tests boot as many servers as they like: without limits, except where a test is about the limits."""

from collections.abc import Iterator
from contextlib import contextmanager

from minova.conf import quota

DEFAULTS = {option.dest: option.default for option in quota.OPTS if option.dest != "recount_interval"}
# As a section of a configuration file, and for `conf.set_override`.
UNLIMITED = dict.fromkeys(DEFAULTS.keys() - {"metadata_items"}, -1)


def lift() -> None:
    _set(UNLIMITED)


@contextmanager
def defaults() -> Iterator[None]:
    """Those of operators."""
    _set(DEFAULTS)
    try:
        yield
    finally:
        lift()


def _set(values: dict[str, int]) -> None:
    for option in quota.OPTS:
        if option.dest in values:
            option.default = values[option.dest]
