"""The record of an open snapshot: INSTANCES/UUID/snapshot.json, written before the step that it names.

none       no snapshot, or the overlay of a release that wrote no record
open       the guest's last writes are in the overlay; the guest does not write to the disk
pivoting   the guest goes over to its disk, or is there
committed  the disk has everything that was in the overlay
"""

import enum
import logging
from pathlib import Path

import msgspec

from minova.codecs import Decoder
from minova.private_files import replace_file
from minova.virt.libvirt.storage.guest_folders import OVERLAY_RECORD

LOG = logging.getLogger(__name__)


class SnapshotStep(enum.StrEnum):
    OPEN = "open"
    PIVOTING = "pivoting"
    COMMITTED = "committed"


class OpenSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    step: SnapshotStep


_RECORD = Decoder(OpenSnapshot)


def read(folder: Path) -> SnapshotStep | None:
    """Raises OSError."""
    path = folder / OVERLAY_RECORD
    try:
        return _RECORD.from_json(path.read_bytes()).step
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        LOG.warning("%s is left out: %s", path, error)
        return None


def write(folder: Path, step: SnapshotStep) -> None:
    """The record is on the disk when this returns. Raises OSError."""
    replace_file(folder / OVERLAY_RECORD, msgspec.json.encode(OpenSnapshot(step=step)))


def remove(folder: Path) -> None:
    (folder / OVERLAY_RECORD).unlink(missing_ok=True)
