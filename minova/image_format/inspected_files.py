"""Remembers results of image inspections in this process, for as long as the file is unchanged.

A build inspects its image in the cache, before its claim and before its disk is made: one inspection serves all of
them.
"""

import threading
from collections import OrderedDict
from pathlib import Path

from minova.image_format import inspection
from minova.image_format.inspection import ImageFacts

# Files whose facts are kept; a host uses fewer images at a time.
MAX_FILES = 256
_Key = tuple[int, int, int, int]
_known: OrderedDict[_Key, ImageFacts] = OrderedDict()
_lock = threading.Lock()


def inspect_once(path: Path, declared: str | None) -> ImageFacts:
    """As `inspection.inspect`, which is called again only if the file has changed. Refusals are not kept here."""
    key = _key(path)
    with _lock:
        facts = _known.get(key)
        if facts is not None and facts.disk_format == declared:
            _known.move_to_end(key)
            return facts
    facts = inspection.inspect(path, declared)
    _keep(key, facts)
    return facts


def remember(path: Path, facts: ImageFacts) -> None:
    """Remember facts that this host has found before by the same rules and recorded beside the file."""
    _keep(_key(path), facts)


def _keep(key: _Key, facts: ImageFacts) -> None:
    with _lock:
        _known[key] = facts
        _known.move_to_end(key)
        while len(_known) > MAX_FILES:
            _known.popitem(last=False)


def _key(path: Path) -> _Key:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
