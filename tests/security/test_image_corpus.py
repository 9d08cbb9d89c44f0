"""Some 320 hostile images: each is refused, or served as what can do no harm, in little time and memory."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

# Seconds of CPU time that one inspection may take: a full L1 table took 18 s.
LONGEST = 4.0


class Inspection(NamedTuple):
    name: str
    declared: str
    served: str | None
    answer: str
    seconds: float

    @property
    def is_right(self) -> bool:
        refused = self.answer.startswith("refused: ")
        served = self.answer == f"served as {self.declared}"
        if self.served == "either":
            return refused or served
        return served if self.served == self.declared else refused


@pytest.fixture(scope="module")
def inspections(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Inspection]]:
    """Of a process of its own, which may have 192 MB of memory more than at its start."""
    folder = tmp_path_factory.mktemp("corpus")
    command = [sys.executable, "-m", "tests.security.image_corpus", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    yield [Inspection(*json.loads(line)) for line in done.stdout.splitlines()]
    (folder / "image").unlink()


def test_each_hostile_image_is_refused_or_harmless(inspections: list[Inspection]) -> None:
    assert len({inspection.name for inspection in inspections}) >= 300
    assert [inspection for inspection in inspections if not inspection.is_right] == []


def test_none_takes_long(inspections: list[Inspection]) -> None:
    slowest = max(inspections, key=lambda one: one.seconds)
    assert slowest.seconds < LONGEST, slowest


def test_reasons_are_short_and_name_no_file_of_the_host(inspections: list[Inspection]) -> None:
    reasons = [inspection.answer for inspection in inspections if inspection.answer.startswith("refused: ")]
    assert max(map(len, reasons)) < 300
    assert [text for text in reasons if str(Path(sys.prefix)) in text or "/tmp" in text or "Traceback" in text] == []
