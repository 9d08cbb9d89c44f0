"""Results of actions, until a conductor has received them.

ID-UUID.kept    the action of the instance has begun, and has replaced no disk of its guest
ID-UUID.begun   it has begun, and may have replaced some; also that of a release that did not tell them apart
ID-UUID.json    its result

After a restore of the database an action of another instance, or another one of the same instance, may have the same id. An earlier
release leaves the UUID out of the names, and the id of the request out of the notes.
"""

import logging
import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from minova.codecs import Decoder
from minova.errors import HypervisorError
from minova.objects.servers.chosen_hardware import ChosenHardware
from minova.private_files import make_folder, replace_file, sync_folder

LOG = logging.getLogger(__name__)
_KEPT, _BEGUN = ".kept", ".begun"


class _BegunAction(NamedTuple):
    """`stem`: the name of its file without the suffix. `request_id` is empty from an earlier release."""

    action_id: int
    kind: str
    request_id: str
    stem: str
    has_replaced: bool = False

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.stem}{_BEGUN if self.has_replaced else _KEPT}"

    def is_same_action(self, action_id: int, request_id: str) -> bool:
        return self.action_id == action_id and self.request_id in {"", request_id}


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an action of an instance on this host. `reason` is None if the action succeeded; `power_state` is
    None if it is not known. `action`: the kind of the action; empty if an older process wrote the result. `request_id`: after a restore
    of the database another action may have the same id; empty from an earlier release.
    """

    instance_uuid: str
    action_id: int
    power_state: int | None
    reason: str | None = None
    kind: str = ""
    untouched: bool = False
    kept: bool = False
    forced: bool = False
    agent_reason: str = ""
    action: str = ""
    kept_disks: bool = False
    hardware: ChosenHardware | None = None
    request_id: str = ""


_RESULT = Decoder(Result)


class UnreportedResults:
    """Results of the last action of each instance, until a conductor has received them, and the actions that have begun.
    With a folder they outlive the process.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        # The names of the files of results by instance.
        self._files: dict[str, str] = {}
        self._results = {result.instance_uuid: result for result in self._read()}
        self._begun = self._read_begun()

    def begin(self, instance_uuid: str, action_id: int, request_id: str, kind: str) -> None:
        """Note that the action begins now. The note of an earlier process stays. One that cannot be written to the folder is logged and
        kept in memory.
        """
        earlier = self._begun.get(instance_uuid)
        if earlier is not None and earlier.is_same_action(action_id, request_id) and earlier.kind == kind:
            return
        self._end(instance_uuid)
        begun = _BegunAction(action_id, kind, request_id, _stem(action_id, instance_uuid))
        self._begun[instance_uuid] = begun
        if self._folder is None:
            return
        try:
            make_folder(self._folder)
            (self._folder / begun.name).write_text(_note(instance_uuid, begun))
        except OSError as error:
            LOG.warning("That action %d begins cannot be noted in %s: %s", action_id, self._folder, error)

    def replaces(self, instance_uuid: str) -> None:
        """Note that the action that has begun replaces disks now. Raises HypervisorError if the next process would not find the note."""
        begun = self._begun.get(instance_uuid)
        if begun is None or begun.has_replaced:
            return
        replacing = begun._replace(has_replaced=True)
        if self._folder is not None:
            path = self._folder / replacing.name
            try:
                try:
                    with (self._folder / begun.name).open("rb") as note:
                        os.fsync(note.fileno())
                    (self._folder / begun.name).rename(path)  # also if the file system is full
                    sync_folder(self._folder)
                except FileNotFoundError:
                    replace_file(path, _note(instance_uuid, begun).encode())
            except OSError as error:
                raise HypervisorError(f"{path} cannot be written: {error.strerror or error}") from error
        self._begun[instance_uuid] = replacing

    def has_replaced(self, instance_uuid: str, action_id: int, request_id: str) -> bool:
        """Whether an earlier process may have replaced disks for the action."""
        begun = self._begun.get(instance_uuid)
        return begun is not None and begun.is_same_action(action_id, request_id) and begun.has_replaced

    def has_begun(self, instance_uuid: str, action_id: int, request_id: str) -> bool:
        """Whether the action has begun here, perhaps in an earlier process, and its result was not received yet."""
        has_ended = self.of(instance_uuid, action_id, request_id) is not None
        return has_ended or self.begun_kind(instance_uuid, action_id, request_id) is not None

    def begun_kind(self, instance_uuid: str, action_id: int, request_id: str) -> str | None:
        """Returns the kind of an action that has begun here and has no result yet."""
        if self.of(instance_uuid, action_id, request_id) is not None:
            return None
        begun = self._begun.get(instance_uuid)
        return begun.kind if begun is not None and begun.is_same_action(action_id, request_id) else None

    def of(self, instance_uuid: str, action_id: int, request_id: str) -> Result | None:
        result = self._results.get(instance_uuid)
        is_same = result is not None and result.action_id == action_id and result.request_id in {"", request_id}
        return result if is_same else None

    def has(self, instance_uuid: str) -> bool:
        return instance_uuid in self._results

    def keep(self, result: Result) -> None:
        """Keep a result instead of the note that its action has begun. One that cannot be written to the folder is logged
        and kept in memory; then the note stays for the next process.
        """
        self._forget(result.instance_uuid)
        self._results[result.instance_uuid] = result
        if self._folder is None:
            self._end(result.instance_uuid)
            return
        name = f"{_stem(result.action_id, result.instance_uuid)}.json"
        path = self._folder / name
        half = path.with_suffix(".part")
        try:
            make_folder(self._folder)
            half.write_bytes(msgspec.json.encode(result))
            half.rename(path)
        except OSError as error:
            LOG.warning("The result of action %d cannot be written to %s: %s", result.action_id, path, error)
        else:
            self._files[result.instance_uuid] = name
            self._end(result.instance_uuid)

    def forget(self, instance_uuid: str) -> None:
        self._end(instance_uuid)
        self._forget(instance_uuid)

    def _forget(self, instance_uuid: str) -> None:
        result, name = self._results.pop(instance_uuid, None), self._files.pop(instance_uuid, None)
        if result is None or name is None or self._folder is None:
            return
        try:
            (self._folder / name).unlink(missing_ok=True)
        except OSError as error:
            LOG.warning("The result of action %d cannot be removed: %s", result.action_id, error)

    def _end(self, instance_uuid: str) -> None:
        begun = self._begun.pop(instance_uuid, None)
        if begun is None or self._folder is None:
            return
        try:
            for suffix in (_KEPT, _BEGUN):
                (self._folder / f"{begun.stem}{suffix}").unlink(missing_ok=True)
        except OSError as error:
            LOG.warning("The note that action %d has begun cannot be removed: %s", begun.action_id, error)

    def _read_begun(self) -> dict[str, _BegunAction]:
        begun = {}
        for path in sorted(self._folder.glob("*")) if self._folder is not None else ():
            if path.suffix not in {_KEPT, _BEGUN}:
                continue
            try:
                instance_uuid, kind, request_id = f"{path.read_text()}  ".split(" ")[:3]
                action_id = int(path.stem.partition("-")[0])
                begun[instance_uuid] = _BegunAction(action_id, kind, request_id, path.stem, path.suffix == _BEGUN)
            except (OSError, ValueError) as error:
                LOG.warning("%s is left out: %s", path, error)
        return begun

    def _read(self) -> list[Result]:
        results = []
        for path in sorted(self._folder.glob("*.json")) if self._folder is not None else ():
            try:
                result = _RESULT.from_json(path.read_bytes())
            except (OSError, msgspec.MsgspecError) as error:
                LOG.warning("%s is left out: %s", path, error)
            else:
                results.append((result, path.name))
        results.sort(key=lambda read: read[0].action_id)
        self._files = {result.instance_uuid: name for result, name in results}
        return [result for result, _ in results]


def _stem(action_id: int, instance_uuid: str) -> str:
    """Returns the name of the files of an action, without a suffix."""
    return f"{action_id}-{instance_uuid}"


def _note(instance_uuid: str, begun: _BegunAction) -> str:
    return f"{instance_uuid} {begun.kind} {begun.request_id}"
