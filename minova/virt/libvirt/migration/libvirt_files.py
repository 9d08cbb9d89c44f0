"""Files of a guest that libvirt keeps in folders of its own: read and written through libvirt, because these folders are root's."""

import logging
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import libvirt

from minova.virt.libvirt.guest_files import tpm_files
from minova.virt.libvirt.storage import disk_owner

LOG = logging.getLogger(__name__)

_POOL_XML = "<pool type='dir'><name>{name}</name><target><path>{folder}</path></target></pool>"
_VOLUME_XML = (
    "<volume><name>{name}</name><capacity unit='bytes'>{size}</capacity>"
    "<target><format type='raw'/><permissions><mode>0600</mode></permissions></target></volume>"
)


class KeptFile(NamedTuple):
    """One kind of file. `suffix` follows the domain's name. `beside`: the file among the disks at the source that has its content;
    its copy at the destination has the attempt behind its name, so that no later move takes an old one.
    """

    folder: str
    suffix: str
    beside: str


# The variables of UEFI firmware, and saved memory.
VARIABLES = KeptFile("/var/lib/libvirt/qemu/nvram", "_VARS.fd", "nvram.fd")
MEMORY = KeptFile("/var/lib/libvirt/qemu/save", ".save", "memory.save")
KINDS = (VARIABLES, MEMORY)
BESIDE = frozenset({*(kind.beside for kind in KINDS), *tpm_files.BESIDE.values()})


def arriving(name: str, attempt: int) -> str:
    """Returns the name at the destination of a file that the source serves."""
    return f"{name}.{attempt}" if name in BESIDE else name


def read(connection: Any, kept: KeptFile, domain_name: str, folder: Path) -> Path | None:
    """Write the domain's file into the guest's folder and return its path there; None if the domain has none."""
    volume = _volume(_pool(connection, kept), domain_name + kept.suffix)
    if volume is None:
        return None
    path = folder / kept.beside
    part = path.with_name(f"{path.name}.part")
    stream = connection.newStream()
    with part.open("wb") as file:
        volume.download(stream, 0, 0, 0)
        stream.recvAll(lambda _, data, out: out.write(data), file)
        stream.finish()
    part.rename(path)
    return path


def remove_copies_for_moves(instances_path: Path, host: str) -> None:
    """Remove what an earlier process has read for moves from this host. libvirt has the originals, and nothing has been served since that
    process has ended.
    """
    for name in sorted(BESIDE):
        for path in (*instances_path.glob(f"*/{name}"), *instances_path.glob(f"*/{name}.part")):
            owner = disk_owner.read(path.parent)
            if owner is None or owner.host != host:
                continue
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                LOG.warning("%s stays: %s", path, error)


def remove(connection: Any, kept: KeptFile, domain_name: str) -> None:
    """Remove the domain's file. Idempotent. The domain must not run."""
    volume = _volume(_pool(connection, kept), domain_name + kept.suffix)
    if volume is not None:
        volume.delete()


def write(connection: Any, kept: KeptFile, domain_name: str, path: Path) -> None:
    """Make the content of this file the domain's. Idempotent."""
    remove(connection, kept, domain_name)
    pool, name = _pool(connection, kept), domain_name + kept.suffix
    size = path.stat().st_size
    volume = pool.createXML(_VOLUME_XML.format(name=name, size=size))
    stream = connection.newStream()
    with path.open("rb") as file:
        volume.upload(stream, 0, size, 0)
        stream.sendAll(_chunk, file)
        stream.finish()


def _chunk(_: Any, count: int, file: BinaryIO) -> bytes:
    return file.read(count)


def _pool(connection: Any, kept: KeptFile) -> Any:
    try:
        pool = connection.storagePoolLookupByTargetPath(kept.folder)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_STORAGE_POOL:
            raise
        name = f"minova-{Path(kept.folder).name}"
        return connection.storagePoolCreateXML(_POOL_XML.format(name=name, folder=kept.folder))
    pool.refresh()
    return pool


def _volume(pool: Any, name: str) -> Any:
    try:
        return pool.storageVolLookupByName(name)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_STORAGE_VOL:
            raise
        return None
