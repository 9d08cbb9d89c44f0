"""What earlier runs found, in a file: a run that was cut goes on where it ended.

An outcome counts until the module changes. That of a survivor counts until a test of the room changes, too.
"""

import hashlib
import json
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.mutation.forks import PASSED
from tests.mutation.mutants import Mutant
from tests.mutation.record import Record
from tests.mutation.rooms import ROOT, Room


class Results:
    """Without a file, nothing is kept."""

    def __init__(self, file: Path | None, room: Room) -> None:
        self._file, self._room = file, room
        self._tests = digest_of(room.test_files())
        self._outcomes: dict[tuple[Any, ...], str] = {}
        if file is not None and file.exists():
            for line in file.read_text().splitlines():
                *key, outcome = json.loads(line)
                self._outcomes[tuple(key)] = outcome

    def outcome_of(self, mutant: Mutant) -> str | None:
        """None if it must run."""
        outcome = self._outcomes.get(self._key(mutant, ""))
        return outcome or self._outcomes.get(self._key(mutant, self._tests))

    def note(self, mutant: Mutant, outcome: str) -> None:
        if self._file is not None:
            key = self._key(mutant, self._tests if outcome == PASSED else "")
            with self._file.open("a") as file:
                print(json.dumps([*key, outcome], ensure_ascii=False), file=file)

    def record(self) -> Record | None:
        """The record that `keep_record` kept. None if a module or a test of the room has changed since."""
        file = self._record_file()
        return pickle.loads(file.read_bytes()) if file is not None and file.exists() else None

    def keep_record(self, record: Record) -> None:
        file = self._record_file()
        if file is not None:
            file.write_bytes(pickle.dumps(record))

    def _record_file(self) -> Path | None:
        if self._file is None:
            return None
        return self._file.with_name(f"{self._file.name}.{self._tests}-{digest_of(self._room.files())}")

    def _key(self, mutant: Mutant, tests: str) -> tuple[Any, ...]:
        return *mutant.key, digest_of([ROOT / mutant.path]), tests


def digest_of(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
