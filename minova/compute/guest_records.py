"""Records of this host's guests, from which the database can know them again, and the actions that have ended here.

build done ----> record: instance, request, attempt
action ended --> record: instance with its new state, the action      then the report to the conductor
guest removed -> no record

A record is written before the report to the conductor. So whatever state a restored database has, the host knows what
was done here, and does not do it again.

UUID.json       the record; it is on the disk before the report
UUID.accepted   the attempt whose report a conductor has accepted. It outlives the process at once, and a power cut some
                seconds later: another write of the whole record took a fifth of a build's time.
"""

import logging
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from minova.codecs import Decoder
from minova.objects.servers.instance import Instance
from minova.objects.unexpected.guest_record import MAX_ACTIONS, EndedAction, GuestRecord
from minova.private_files import make_folder, replace_file

LOG = logging.getLogger(__name__)
_RECORD = Decoder(GuestRecord)
# Fields of an instance that change without an action of its host.
_OF_USERS = ("display_name", "hostname", "metadata", "availability_zone", "network_info")


class GuestRecords:
    """Safe for threads. With a folder the records outlive the process: one file for each guest."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._records: dict[str, GuestRecord] = {record.instance.uuid: record for record in self._read()}

    def of(self, instance_uuid: str) -> GuestRecord | None:
        return self._records.get(instance_uuid)

    def all(self) -> Mapping[str, GuestRecord]:
        with self._lock:
            return dict(self._records)

    def keep(self, record: GuestRecord) -> None:
        """A record that cannot be written to the folder is logged and kept in memory."""
        with self._lock:
            if self._records.get(record.instance.uuid) != record:
                self._records[record.instance.uuid] = record
                self._write(record)

    def ended(self, instance: Instance, action: EndedAction) -> None:
        """Records the end of an action, with the instance as it is afterwards."""
        record = self.of(instance.uuid)
        if record is None:
            record = GuestRecord(instance=instance, attempt=instance.attempt, node=instance.node or "")
        actions = (*record.actions, action)[-MAX_ACTIONS:]
        self.keep(
            msgspec.structs.replace(record, instance=with_long_fields(instance, record.instance), actions=actions)
        )

    def accepted(self, instance_uuid: str, attempt: int) -> None:
        """A conductor has accepted the report that this attempt succeeded."""
        with self._lock:
            record = self._records.get(instance_uuid)
            if record is None or record.attempt != attempt or record.accepted:
                return
            self._records[instance_uuid] = msgspec.structs.replace(record, accepted=True)
            if self._folder is None:
                return
            path = self._acceptance(self._folder, instance_uuid)
            try:
                path.write_text(str(attempt))
            except OSError as error:
                LOG.warning("%s cannot be written: %s", path, error)

    def learn(self, instances: Iterable[Instance]) -> None:
        """Takes over what users have changed since the records were written, from rows that are not older than them."""
        for instance in instances:
            record = self.of(instance.uuid)
            if record is not None and record.attempt != instance.attempt:
                continue
            if record is None:
                node = instance.node or ""
                self.keep(GuestRecord(instance=instance, attempt=instance.attempt, node=node, accepted=True))
            else:
                changed = {name: getattr(instance, name) for name in _OF_USERS}
                changed_instance = msgspec.structs.replace(record.instance, **changed)
                self.keep(msgspec.structs.replace(record, instance=changed_instance, accepted=True))

    def forget(self, instance_uuid: str) -> None:
        with self._lock:
            if self._records.pop(instance_uuid, None) is None or self._folder is None:
                return
            try:
                self._path(self._folder, instance_uuid).unlink(missing_ok=True)
                self._acceptance(self._folder, instance_uuid).unlink(missing_ok=True)
            except OSError as error:
                LOG.warning("The record of guest %s cannot be removed: %s", instance_uuid, error)

    def _write(self, record: GuestRecord) -> None:
        if self._folder is None:
            return
        path = self._path(self._folder, record.instance.uuid)
        try:
            make_folder(self._folder)
            replace_file(path, msgspec.json.encode(record))
        except OSError as error:
            LOG.warning("The record of guest %s cannot be written to %s: %s", record.instance.uuid, path, error)

    def _path(self, folder: Path, instance_uuid: str) -> Path:
        return folder / f"{instance_uuid}.json"

    def _acceptance(self, folder: Path, instance_uuid: str) -> Path:
        return folder / f"{instance_uuid}.accepted"

    def _read(self) -> Iterable[GuestRecord]:
        for path in sorted(self._folder.glob("*.json")) if self._folder is not None else ():
            try:
                record = _RECORD.from_json(path.read_bytes())
                acceptance = self._acceptance(path.parent, record.instance.uuid)
                accepted = acceptance.exists() and acceptance.read_text() == str(record.attempt)
                yield msgspec.structs.replace(record, accepted=record.accepted or accepted)
            except (OSError, msgspec.MsgspecError) as error:
                LOG.warning("%s is left out: %s", path, error)


def with_long_fields(instance: Instance, recorded_instance: Instance) -> Instance:
    """Messages of actions may leave out long fields that only a build needs: these stay as they are known."""
    long_fields = {
        name: getattr(recorded_instance, name)
        for name in ("user_data", "key_data")
        if getattr(instance, name) is None and getattr(recorded_instance, name) is not None
    }
    return msgspec.structs.replace(instance, **long_fields) if long_fields else instance
