"""The variables of a guest's UEFI firmware, which libvirt keeps in a folder of its own: through libvirt, because that folder is root's."""

from pathlib import Path
from typing import Any, BinaryIO

import libvirt

FOLDER = "/var/lib/libvirt/qemu/nvram"
# The file beside the guest's disks that holds the variables on their way.
NAME = "nvram.fd"
_POOL = "minova-nvram"
_POOL_XML = f"<pool type='dir'><name>{_POOL}</name><target><path>{FOLDER}</path></target></pool>"
_VOLUME_XML = (
    "<volume><name>{name}</name><capacity unit='bytes'>{size}</capacity>"
    "<target><format type='raw'/><permissions><mode>0600</mode></permissions></target></volume>"
)


def save(connection: Any, domain_name: str, path: Path) -> bool:
    """Write the domain's variables into this file. Returns False if it has none, such as one that has never run."""
    volume = _volume(_pool(connection), _file_of(domain_name))
    if volume is None:
        return False
    part = path.with_name(f"{path.name}.part")
    stream = connection.newStream()
    with part.open("wb") as file:
        volume.download(stream, 0, 0, 0)
        stream.recvAll(lambda _, data, out: out.write(data), file)
        stream.finish()
    part.rename(path)
    return True


def restore(connection: Any, domain_name: str, path: Path) -> None:
    """Make the content of this file the domain's variables. Idempotent."""
    pool, name = _pool(connection), _file_of(domain_name)
    existing = _volume(pool, name)
    if existing is not None:
        existing.delete()
    size = path.stat().st_size
    volume = pool.createXML(_VOLUME_XML.format(name=name, size=size))
    stream = connection.newStream()
    with path.open("rb") as file:
        volume.upload(stream, 0, size, 0)
        stream.sendAll(_read, file)
        stream.finish()


def _read(_: Any, count: int, file: BinaryIO) -> bytes:
    return file.read(count)


def _file_of(domain_name: str) -> str:
    """Returns libvirt's name of the file."""
    return f"{domain_name}_VARS.fd"


def _pool(connection: Any) -> Any:
    try:
        pool = connection.storagePoolLookupByTargetPath(FOLDER)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_STORAGE_POOL:
            raise
        return connection.storagePoolCreateXML(_POOL_XML)
    pool.refresh()
    return pool


def _volume(pool: Any, name: str) -> Any:
    try:
        return pool.storageVolLookupByName(name)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_STORAGE_VOL:
            raise
        return None
