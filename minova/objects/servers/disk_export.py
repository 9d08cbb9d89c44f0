"""The disks of a guest that is off, as its host serves them to the host to which it moves."""

from typing import Annotated

import msgspec
from msgspec import Meta

from minova.objects.hosts.bounds import Count, Line, Serial

# The destination hands these to qemu-img among other options: a stolen source must not add options of its own.
FileName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9._-]{1,255}\Z")]
# A source puts it into the URIs of another host's libvirtd and QEMU.
HostName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9:_][A-Za-z0-9.:_-]{0,254}\Z")]
Address = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9.:_-]{0,255}\Z")]
# Formats in which minova makes disks: QEMU would follow the file names in a header of another one.
DiskFormat = Annotated[str, Meta(pattern=r"\A(qcow2|raw)\Z")]
DeviceKey = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9:._-]{1,255}\Z")]
# Of a secret, under which its kind was used (`disk_keys.mark_of`).
SecretMark = Annotated[str, Meta(pattern=r"\A[0-9a-f]{0,64}\Z")]
PciAddress = Annotated[str, Meta(pattern=r"\A[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")]


class TransferKey(msgspec.Struct, frozen=True, kw_only=True):
    """The pre-shared key of TLS with which one move's disks are fetched, and nothing else. `secret`: in hex. No log and
    no error contains it.
    """

    identity: str
    secret: str

    def __repr__(self) -> str:
        return f"TransferKey(identity={self.identity!r})"


class ExportedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of the guest, byte for byte under the name `export`.

    - `size`: its length in bytes.
    - `format`: of a disk, as recorded by the source; None for other files.
    - `based`: whether it is on top of the server's image, which the destination has to have.
    """

    name: FileName
    export: FileName
    size: Serial
    format: DiskFormat | None = None
    based: bool = False


class PciAddresses(msgspec.Struct, frozen=True, kw_only=True):
    """Where a guest of this machine, such as q35, has its devices: addresses by the MAC address of an interface, or the name of a disk."""

    machine: Line
    devices: Annotated[dict[DeviceKey, PciAddress], Meta(max_length=512)] = {}


class DiskExport(msgspec.Struct, frozen=True, kw_only=True):
    """What a source serves, at `address`:`port`. No `files`: nothing of the guest has to be fetched.

    - `host`, `attempt`: the source's owner record.
    - `shown`: the UUID of the migration, which the source has written into that record. A destination that finds it in its own folder
      shares the storage, and fetches nothing. A copy of the folder has no UUID of this migration.
    - `memory_mb`, `vcpus`: of the guest whose saved memory is among the files.
    - `drive_is_cd`: whether the config drive is a CD.
    - `addresses`: of the guest's devices, which it keeps.
    - `base`: the digest of the image on which the root disk is based; None: it has none, or the source does not say.
    - `based`: whether the root disk is based on an image; None: the source does not say.
    - `images`: what the guest has of its image: the base of its root disk, its kernel and its ramdisk, named by their digests. For a
      destination to which the image service does not give them any more.
    - `secrets`: {kind: mark} of the secrets that open disks and TPM; empty: the source does not know.
    """

    host: Line
    attempt: Count
    shown: Line = ""
    address: Address = ""
    port: Annotated[int, Meta(ge=0, le=65_535)] = 0
    files: Annotated[tuple[ExportedFile, ...], Meta(max_length=256)] = ()
    memory_mb: Count = 0
    vcpus: Count = 0
    drive_is_cd: bool = True
    addresses: PciAddresses | None = None
    base: FileName | None = None
    based: bool | None = None
    images: Annotated[tuple[ExportedFile, ...], Meta(max_length=8)] = ()
    secrets: Annotated[dict[Annotated[str, Meta(pattern=r"\A[a-z]{1,16}\Z")], SecretMark], Meta(max_length=8)] = {}
