"""Whose the folders of guests are: the owner record of each says which host has made its disks, and what else goes by it. No folder is
removed without it.
"""

import logging
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from minova.errors import DisksOfAnotherHost, HypervisorError
from minova.objects.guests.guest_secrets import SecretKind
from minova.objects.hosts.service import OTHER_HOST
from minova.objects.servers.disk_export import PciAddresses
from minova.objects.servers.instance import Instance
from minova.virt.driver.domains import RowHost
from minova.virt.libvirt.guest_files import image_locks
from minova.virt.libvirt.storage import disk_owner
from minova.virt.libvirt.storage.disk_owner import UNKNOWN_ATTEMPT, DiskOwner, OwnerFile, SecretsInUse
from minova.virt.libvirt.storage.guest_folders import GuestFolders

LOG = logging.getLogger(__name__)


class OwnedFolders(GuestFolders):
    """The folders in the view of one host."""

    def __init__(self, instances_path: Path) -> None:
        super().__init__(instances_path)
        self._former_hosts: frozenset[str] = frozenset()

    def recognise(self, former_hosts: frozenset[str]) -> None:
        """Earlier names of this host, which may be in records of its disks. Another host may have one of them now: what tells the two
        apart is the row of the server (`own_renamed`, `settled_record`, `_reason_to_keep`).
        """
        self._former_hosts = former_hosts

    def require_owner(self, instance_uuid: str, host: str, row: Instance | None = None) -> None:
        """`row`: the instance as a conductor has it; see `own_renamed`, `_take_back`.

        Raises DisksOfAnotherHost if another host has made these disks since, on shared storage. Raises HypervisorError if they are this
        host's again, and a QEMU elsewhere has them open.
        """
        with suppress(FileNotFoundError), disk_owner.locked(self.folder(instance_uuid)) as owner:
            entry = owner.read()
            if entry is None or entry.host == host or self._own_renamed(owner, entry, host, row):
                return
            if self._take_back(owner, entry, host, row):
                self.share_written(self.folder(instance_uuid) / disk_owner.ROOT_DISK)
                return
            raise DisksOfAnotherHost(f"The disks of instance {instance_uuid} are now of host {entry.host}")

    def own_renamed(self, row: Instance, host: str) -> None:
        """Record this host's present name for disks that it has made under a former one: the server is here, in the attempt that has
        made them. Disks of another host that has the former name now are of another attempt.
        """
        entry = disk_owner.read(self.folder(row.uuid))
        if entry is None or entry.host == host:
            return
        with suppress(FileNotFoundError), disk_owner.locked(self.folder(row.uuid)) as owner:
            entry = owner.read()
            if entry is not None:
                self._own_renamed(owner, entry, host, row)

    def _own_renamed(self, owner: OwnerFile, entry: DiskOwner, host: str, row: Instance | None) -> bool:
        if row is None or row.host != host or entry.host not in self._former_hosts:
            return False
        if entry.attempt not in {row.attempt, UNKNOWN_ATTEMPT}:
            return False
        owner.write(msgspec.structs.replace(entry, host=host))
        return True

    def _take_back(self, owner: OwnerFile, entry: DiskOwner, host: str, row: Instance | None) -> bool:
        """Undo the evacuation that has taken these disks from this host, if the server is here again, in the attempt that it had before.
        The evacuation has failed, and its host may be dead. Raises HypervisorError if a QEMU has them open.
        """
        if row is None or row.host != host or entry.taken_from is None:
            return False
        previous = entry.taken_from
        if previous.host not in {host, *self._former_hosts} or previous.attempt != row.attempt:
            return False
        self.require_closed(self.folder(row.uuid) / disk_owner.ROOT_DISK, entry, host)
        LOG.warning(
            "The disks of instance %s are this host's again: host %s has not evacuated it", row.uuid, entry.host
        )
        owner.give_back()
        return True

    def settled_record(self, owner: OwnerFile, host: str, row: Instance) -> DiskOwner | None:
        """Returns the record of a folder into which disks of a server that is elsewhere are to come. One with a former name of this host
        gets the present one, unless a host of that name has the server.
        """
        entry = owner.read()
        is_renamed = entry is not None and entry.host in self._former_hosts and entry.taken_from is None
        if entry is None or not is_renamed or row.host in {None, entry.host}:
            return entry
        entry = msgspec.structs.replace(entry, host=host)
        owner.write(entry)
        return entry

    def addresses(self, instance_uuid: str) -> PciAddresses | None:
        """Returns the recorded addresses of the guest's devices."""
        entry = disk_owner.read(self.folder(instance_uuid))
        return None if entry is None else entry.addresses

    def secrets_in_use(self, instance_uuid: str) -> SecretsInUse:
        return disk_owner.secrets_in_use(self.folder(instance_uuid))

    def note_secret(self, instance_uuid: str, kind: SecretKind, mark: str) -> None:
        """Record which secret encrypts what has come from another host, or is made now. Disks that no host is recorded to own have no
        record.
        """
        with suppress(FileNotFoundError), disk_owner.locked(self.folder(instance_uuid)) as owner:
            entry = owner.read()
            if entry is not None:
                owner.write(msgspec.structs.replace(entry, secrets={**entry.secrets, kind.value: mark}))

    def note_addresses(self, instance_uuid: str, learn: Callable[[PciAddresses | None], PciAddresses | None]) -> None:
        """Record what `learn` makes of the known addresses. Disks that no host is recorded to own have no record."""
        with suppress(FileNotFoundError), disk_owner.locked(self.folder(instance_uuid)) as owner:
            entry = owner.read()
            if entry is not None and (addresses := learn(entry.addresses)) != entry.addresses:
                owner.write(msgspec.structs.replace(entry, addresses=addresses))

    def take_over(self, instance_uuid: str, host: str, attempt: int, old_attempt: int = 0) -> bool:
        """See `DiskDriver.take_over`."""
        folder = self.folder(instance_uuid)
        root = folder / disk_owner.ROOT_DISK
        try:
            with disk_owner.locked(folder) as owner:
                entry = owner.read()
                self.require_closed(root, entry, host)
                was_taken = owner.take_over(host, attempt, old_attempt, self._former_hosts)
        except FileNotFoundError:
            return False
        if was_taken:
            self.share_written(root)
        return was_taken

    def are_left(self, instance: Instance, host: str) -> bool:
        """Whether the instance has come to this host, and its disks are still recorded as those of its host before: a move
        on shared storage has ended before it made them this host's.
        """
        entry = disk_owner.read(self.folder(instance.uuid))
        return instance.host == host and entry is not None and entry.host != host and entry.attempt < instance.attempt

    def take_left(self, instance: Instance, host: str) -> None:
        """Make disks of `are_left` this host's. Raises DisksOfAnotherHost if a later attempt has them, HypervisorError if a
        hypervisor has them open, or if it is not known whose they are.
        """
        folder = self.folder(instance.uuid)
        root = folder / disk_owner.ROOT_DISK
        with disk_owner.locked(folder) as owner:
            self.require_closed(root, owner.read(), host)
            owner.hand_over(host, instance.attempt)
        self.share_written(root)

    def require_closed(self, root: Path, entry: DiskOwner | None, host: str) -> None:
        """Raises HypervisorError if the disk is another host's, and a QEMU has it open."""
        self._qemu.take_back(root)
        if entry is not None and entry.host != host and image_locks.is_open(root):
            raise HypervisorError(f"A QEMU on another host still has {root} open: the guest is not down")

    def remove(self, instance_uuid: str, host: str, row: RowHost) -> None:
        """Remove the folder with all its files, if it belongs to this host. Idempotent.

        Raises HypervisorError if it cannot be removed, or if its owner is not known.
        """
        folder = self.folder(instance_uuid)
        try:
            with disk_owner.locked(folder) as owner:
                reason = self._reason_to_keep(instance_uuid, owner, host, row)
                if owner.is_taken_over(host) and (row.undone or row.host != host):
                    LOG.info("The files in %s go back to the host of the evacuated server", folder)
                    owner.give_back()
                    return
                if reason:
                    LOG.warning("The files in %s are not removed: %s", folder, reason)
                    return
                _remove_folder(folder)
        except FileNotFoundError:
            return
        except OSError as error:
            path = error.filename or folder
            raise HypervisorError(f"{path} cannot be removed: {error.strerror or error}") from error

    def has_other_hosts(self, host: str) -> bool:
        """Whether other hosts keep disks in this folder. This one under a name of before is no other."""
        return bool(disk_owner.other_hosts(self.path, host) - self._former_hosts)

    def _reason_to_keep(self, instance_uuid: str, owner: OwnerFile, host: str, row: RowHost) -> str | None:
        """Returns why the files must stay; None if they may be removed. Raises HypervisorError if that is unknown
        now.
        """
        entry, own = owner.read(), owner.is_of(host)
        if row.undone:
            return None if own else f"host {host} has not made them"
        if not own and entry is not None and entry.host in self._former_hosts and entry.taken_from is None:
            # Another host may have the former name now.
            own = row.known and row.host not in {entry.host, OTHER_HOST} and owner.is_of(entry.host)
        if row.known and row.host == host:
            return None
        if row.known and row.host is not None:
            if not own:
                return f"instance {instance_uuid} is on host {row.host}, and host {host} has not made them"
            others = disk_owner.other_hosts(self.path, host)
            shared = self.has_other_hosts(host) if row.host == OTHER_HOST else row.host in others
            return f"instance {instance_uuid} is on host {row.host}, which shares this folder" if shared else None
        if own or (entry is None and row.known):
            return None
        if entry is None:
            raise HypervisorError(f"Whether the disks of instance {instance_uuid} may go is not known yet")
        return f"host {entry.host} has made them"

    def own(self, instance_uuid: str, host: str, formats: Callable[[], dict[str, str]] = dict) -> None:
        """Record the host as owner of disks that are known to be its own, if no owner file says so.

        `formats` returns the format of each file; it is called if one is not recorded.
        """
        folder = self.folder(instance_uuid)
        with suppress(FileNotFoundError), disk_owner.locked(folder) as owner:
            entry, own = owner.read(), owner.is_of(host)
            if own and entry is not None and entry.formats:
                disks = {path.name.removesuffix(".part") for path in folder.glob("disk*")}
                if not disks <= entry.formats.keys():
                    owner.note_formats(formats())
                return
            written = formats()
            if own and not written:
                return
            owner.own(host, written)


def _remove_folder(folder: Path) -> None:
    """The owner file is removed last: after an error the remaining files still have an owner."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != disk_owner.OWNER:
            path.unlink(missing_ok=True)
    shutil.rmtree(folder)
