"""Removes base images from the cache that no disk is based on any more (`[image_cache]`)."""

import logging
import os
import re
import tempfile
from collections.abc import Container
from pathlib import Path

from minova.compute.images.cached_files import locked_if_free, mark_file

LOG = logging.getLogger(__name__)
# Seconds from the download of a base image until a disk based on it surely exists: qemu-img may take two minutes.
GRACE = 300.0
_DIGEST = re.compile(r"([0-9a-f]{64,128})(\.json|\.json\.part|\.part|\.part\.part)?")


def sweep(folder: Path, in_use: Container[str], minimum_age: float, now: float) -> tuple[str, ...]:
    """Remove bases and partial downloads that were not requested for `minimum_age` seconds. Returns their names.

    `in_use` contains names of bases and is read before this call: bases fetched since then are too young to be removed.
    """
    if not folder.exists():
        return ()
    names = {match[1] for path in folder.iterdir() if (match := _DIGEST.fullmatch(path.name))}
    removed = []
    for name in sorted(names):
        if name in in_use:
            continue
        with locked_if_free(folder, name) as is_free:
            if not is_free:
                LOG.debug("Base image %s is being fetched or removed now, and is kept", name)
                continue
            age = now - _last_asked(folder / name)
            if age < max(minimum_age, GRACE):
                LOG.debug("Base image %s was asked for %.0f s ago and is kept", name, age)
                continue
            _remove(folder / name)
        LOG.info("Removed base image %s: no disk stands on it, and it was not asked for in %.0f s", name, age)
        removed.append(name)
    return tuple(removed)


def time_in(folder: Path) -> float:
    """Returns the time of the file system's clock, which dates the files: the clocks of hosts that share the folder may
    differ.
    """
    if not folder.exists():
        return 0.0
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".clock-") as probe:
        return os.fstat(probe.fileno()).st_mtime


def _files(path: Path) -> tuple[Path, ...]:
    mark = mark_file(path)
    part = path.with_name(f"{path.name}.part")
    # The base comes last: if a removal fails, its name still leads to the other files.
    # A copy from another host was once written beside its own temporary file.
    part_of_copy = part.with_name(f"{part.name}.part")
    return (mark, mark.with_suffix(".json.part"), part_of_copy, part, path)


def _last_asked(path: Path) -> float:
    """Returns the newest time of the image's files: the mark is touched whenever the image is requested."""
    return max((file.stat().st_mtime for file in _files(path) if file.exists()), default=0.0)


def _remove(path: Path) -> None:
    for file in _files(path):
        file.unlink(missing_ok=True)
