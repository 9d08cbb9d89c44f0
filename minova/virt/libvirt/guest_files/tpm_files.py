"""The state of a guest's TPM, in a folder that is swtpm's: read and written through libvirt, which runs as root.

    /var/lib/libvirt/swtpm/UUID/tpm2/tpm2-00.permall      encrypted by swtpm with the guest's passphrase

libvirt makes the folder at the first start, and removes it together with the definition of the domain. A folder without a state
would keep swtpm from making one, so an empty folder is removed here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import libvirt

from minova.errors import HypervisorError
from minova.hardware.guest.features import TPM_1_2, TPM_2_0
from minova.objects.guests.guest_secrets import MAX_STATE

STATES = Path("/var/lib/libvirt/swtpm")
_FILES = {TPM_1_2: "tpm1.2/tpm-00.permall", TPM_2_0: "tpm2/tpm2-00.permall"}
# The file among the disks in which the state goes to another host, by version.
BESIDE = {version: f"tpm{version}.state" for version in _FILES}
_POOL_XML = (
    "<pool type='dir'><name>{name}</name><target><path>{folder}</path>"
    "<permissions><mode>0700</mode></permissions></target></pool>"
)
_VOLUME_XML = (
    "<volume><name>{name}</name><capacity unit='bytes'>{size}</capacity>"
    "<target><format type='raw'/><permissions><mode>0600</mode></permissions></target></volume>"
)


def may_be_there(instance_uuid: str) -> bool:
    """Whether the guest has such a folder, as far as this process sees libvirt's folders."""
    return (STATES / instance_uuid).exists()


def read(connection: Any, instance_uuid: str, version: str) -> bytes | None:
    """Returns the state; None if there is none. The guest must be off. Raises HypervisorError for a file that is too large."""
    with _folder(connection, instance_uuid, version) as (pool, name):
        volume = next((candidate for candidate in pool.listAllVolumes() if candidate.name() == name), None)
        if volume is None:
            return None
        if volume.info()[1] > MAX_STATE:
            raise HypervisorError(f"The state of the TPM of instance {instance_uuid} has {volume.info()[1]} bytes")
        parts: list[bytes] = []
        stream = connection.newStream()
        volume.download(stream, 0, 0, 0)
        stream.recvAll(lambda _, data, chunks: chunks.append(data), parts)
        stream.finish()
        return b"".join(parts)


def has_state(connection: Any, instance_uuid: str) -> bool:
    """Whether there is a state of any version."""
    for version in _FILES:
        with _folder(connection, instance_uuid, version) as (pool, name):
            if any(volume.name() == name for volume in pool.listAllVolumes()):
                return True
    return False


def write(connection: Any, instance_uuid: str, version: str, state: bytes) -> None:
    """Makes this the state. Idempotent. The guest must be off."""
    with _folder(connection, instance_uuid, version) as (pool, name):
        for volume in pool.listAllVolumes():
            volume.delete()
        volume = pool.createXML(_VOLUME_XML.format(name=name, size=len(state)))
        stream = connection.newStream()
        volume.upload(stream, 0, len(state), 0)
        rest = [state]

        def chunk(_: Any, count: int, __: object) -> bytes:
            data, rest[0] = rest[0][:count], rest[0][count:]
            return data

        stream.sendAll(chunk, None)
        stream.finish()


def remove(connection: Any, instance_uuid: str) -> None:
    """Removes the states of both versions. Idempotent. The guest must be off."""
    for version in _FILES:
        with _folder(connection, instance_uuid, version) as (pool, _):
            for volume in pool.listAllVolumes():
                volume.delete()


@contextmanager
def _folder(connection: Any, instance_uuid: str, version: str) -> Iterator[tuple[Any, str]]:
    """Yields the folder as a pool of volumes, for this call alone, and the name of the state in it."""
    folder, _, name = _FILES[version].partition("/")
    pool = _pool(connection, f"minova-tpm{version}-{instance_uuid}", STATES / instance_uuid / folder)
    try:
        yield pool, name
    finally:
        is_empty = not pool.listAllVolumes()
        pool.destroy()
        if is_empty:
            pool.delete()
        pool.undefine()


def _pool(connection: Any, name: str, folder: Path) -> Any:
    try:
        pool = connection.storagePoolLookupByName(name)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_STORAGE_POOL:
            raise
        pool = connection.storagePoolDefineXML(_POOL_XML.format(name=name, folder=folder))
    if not pool.isActive():
        pool.build()
        pool.create()
    pool.refresh()
    return pool
