"""Warnings about what hosts and stores report: one line for each report, however much is in it."""

import logging
from collections.abc import Collection

LOG = logging.getLogger(__name__)
# The most items in one line of the log.
MAX_LOGGED = 20


def warn_of_some(text: str, where: str, items: Collection[str]) -> None:
    """`text`: with two %s, for `where` and for the first items."""
    if items:
        more = f" and {len(items) - MAX_LOGGED} more" if len(items) > MAX_LOGGED else ""
        LOG.warning(text, where, ", ".join(sorted(items)[:MAX_LOGGED]) + more)
