"""A config drive as a file system in a file: iso9660, as a CD, or vfat, as a disk. Both have the label `config-2`."""

import io
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import pycdlib

from minova.errors import GuestDataUnacceptable
from minova.virt import programs

LABEL = "config-2"
ISO9660, VFAT = "iso9660", "vfat"
# Nova's size of a vfat drive. The file is thin.
VFAT_SIZE = 64 << 20
# The room for files: without tables, folders and clusters that small files fill only in part.
VFAT_ROOM = VFAT_SIZE - (4 << 20)
# Programs and their Debian packages.
VFAT_PROGRAMS = {"mkfs.vfat": "dosfstools", "mcopy": "mtools"}
_PUBLISHER = "minova"


def write(path: Path, drive_format: str, files: Mapping[str, bytes]) -> None:
    """Write a file that only this user can access. Raises DiskFull and HypervisorError as `programs` does, and
    OSError.

    Raises GuestDataUnacceptable if the files do not fit on the drive.
    """
    if drive_format == VFAT:
        _write_vfat(path, files)
    else:
        _write_iso9660(path, files)


def _write_iso9660(path: Path, files: Mapping[str, bytes]) -> None:
    """File names are written by Rock Ridge and Joliet. The names of ISO 9660 itself, which allow less, are numbers."""
    disc = pycdlib.PyCdlib()
    disc.new(interchange_level=3, joliet=3, rock_ridge="1.09", vol_ident=LABEL, pub_ident_str=_PUBLISHER)
    own_names: dict[str, str] = {}
    for name, content in sorted(files.items()):
        folder = _add_folders(disc, PurePosixPath(name).parent, own_names)
        own_names[name] = f"{folder}/F{len(own_names):06}.;1"
        disc.add_fp(
            io.BytesIO(content),
            len(content),
            own_names[name],
            rr_name=PurePosixPath(name).name,
            joliet_path=f"/{name}",
            file_mode=0o100444,
        )
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        disc.write_fp(file)
    disc.close()


def _add_folders(disc: pycdlib.PyCdlib, folder: PurePosixPath, own_names: dict[str, str]) -> str:
    """Returns ISO 9660's own name of the folder. Adds the folder and its parents if they are missing."""
    if not folder.name:
        return ""
    if str(folder) not in own_names:
        above = _add_folders(disc, folder.parent, own_names)
        own_names[str(folder)] = f"{above}/D{len(own_names):06}"
        disc.add_directory(own_names[str(folder)], rr_name=folder.name, joliet_path=f"/{folder}", file_mode=0o040555)
    return own_names[str(folder)]


def _write_vfat(path: Path, files: Mapping[str, bytes]) -> None:
    """The programs run as a user without rights, which may read the temporary folder of the files meanwhile."""
    size = sum(len(content) for content in files.values())
    if size > VFAT_ROOM:
        raise GuestDataUnacceptable(f"{size} bytes of files, and a vfat config drive holds {VFAT_ROOM}")
    limits = programs.RunLimits(file_size=VFAT_SIZE)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.ftruncate(handle, VFAT_SIZE)
    finally:
        os.close(handle)
    programs.write_with(path, ("mkfs.vfat", "-n", LABEL), limits)
    with tempfile.TemporaryDirectory(prefix="config-drive-") as folder:
        top = Path(folder)
        for name, content in files.items():
            file = top / name
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.write_bytes(content)
        programs.let_read(top)
        # -s: with all folders below, -Q: end at the first error, -o and -n: overwrite without a question.
        sources = sorted(str(each) for each in top.iterdir())
        programs.write_with(path, ("mcopy", "-s", "-Q", "-o", "-n", "-i"), limits, *sources, "::")
