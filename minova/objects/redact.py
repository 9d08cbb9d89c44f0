"""Removes the names of hosts from texts for users who are not administrators."""

import re
from collections.abc import Iterable

SOMEWHERE = "the host"


def redact_hosts(text: str, names: Iterable[str]) -> str:
    """`h1: no space on h1` becomes `no space on the host`."""
    known = sorted({name for name in names if name}, key=len, reverse=True)
    if not known:
        return text
    one_of = "|".join(map(re.escape, known))
    labels = re.sub(rf"(^|[.;:] )(?:{one_of}): ", r"\1", text)
    return re.sub(rf"(?<![\w.-])(?:{one_of})(?![\w-]|\.\w)", SOMEWHERE, labels)
