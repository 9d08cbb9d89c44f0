"""Options of the form `name=ratio, name=ratio`."""

import logging
from collections.abc import Sequence

LOG = logging.getLogger(__name__)


def ratios(texts: Sequence[str], option: str) -> list[tuple[str, float]]:
    """Returns the ratios in their order. Invalid ones are left out with a warning, as in Nova."""
    values, bad = [], []
    for text in texts:
        name, _, ratio = text.partition("=")
        try:
            value = float(ratio)
        except ValueError:
            name = ""
        if name:
            values.append((name, value))
        else:
            bad.append(text)
    if bad:
        LOG.warning("Ignoring the invalid elements of the option %s: %s", option, ", ".join(bad))
    return values
