"""What a service has seen of its cloud, in a file of its own: it outlives the process, and no restore of the database
changes it.
"""

import logging
from pathlib import Path

import msgspec

from minova import errors
from minova.codecs import Decoder
from minova.objects.hosts.cloud import (
    CloudState,
    WitnessRecord,
    learned,
)
from minova.private_files import make_folder, replace_file

LOG = logging.getLogger(__name__)
# Seconds between two writes of marks. A new history, or a new cloud, is written at once.
WRITE_INTERVAL = 1.0
_SEEN = Decoder(WitnessRecord)


class Witness:
    """`path` None: what it has seen ends with the process. Safe for several processes with one file: each writes all of
    what it has seen.

    Raises InvalidConfiguration if the file cannot be read.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._written_at = float("-inf")
        self._cannot_write = False
        self.seen = None if path is None else _read(path)

    @property
    def remedy(self) -> str:
        """Returns what an operator does if this service is to belong to the other cloud."""
        return f"If it is to belong to that cloud, remove {self._path}" if self._path else "Start it again"

    def learn(self, state: CloudState, now: float) -> None:
        """Keep what a database shows that agrees with what was seen. `now`: seconds, monotonic."""
        before, self.seen = self.seen, learned(self.seen, state)
        is_new = before is None or (before.uuid, before.history) != (self.seen.uuid, self.seen.history)
        if is_new or (self.seen != before and now - self._written_at >= WRITE_INTERVAL):
            self._written_at = now
            self._write(self.seen)

    def _write(self, seen: WitnessRecord) -> None:
        """A file that cannot be written is no reason to stop: what stands in it stays valid evidence."""
        if self._path is None:
            return
        try:
            make_folder(self._path.parent)
            replace_file(self._path, msgspec.json.encode(seen))
            self._cannot_write = False
        except OSError as error:
            if not self._cannot_write:
                LOG.warning("%s cannot be written, and keeps what was seen before: %s", self._path, error.strerror)
            self._cannot_write = True


def _read(path: Path) -> WitnessRecord | None:
    try:
        return _SEEN.from_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise errors.InvalidConfiguration(
            f"{path} cannot be read: {error.strerror}. The user of this service must be able to read and write it."
        ) from error
    except msgspec.DecodeError as error:
        raise errors.InvalidConfiguration(
            f"{path} cannot be read: {error}. It shows to which cloud this service belongs. Restore it, or remove it if the "
            "database is the right one."
        ) from None
