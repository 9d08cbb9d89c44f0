"""A restored database gave the number of an action that had begun here to another one: the note of the first counted for the second. Its disks
counted as replaced, and a request to cancel it was answered with "it has begun". Of two servers with such actions, one lost its note.
"""

from pathlib import Path

import pytest

from minova.compute.actions.results import Result, UnreportedResults

REBUILD, STOP = "rebuild", "stop"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "actions"


def test_note_counts_for_its_request_alone(folder: Path) -> None:
    noted = UnreportedResults(folder)
    noted.begin("i", 7, "req-before", REBUILD)
    noted.replaces("i")
    later = UnreportedResults(folder)
    assert later.has_begun("i", 7, "req-before")
    assert later.has_replaced("i", 7, "req-before")
    assert not later.has_begun("i", 7, "req-after")
    assert not later.has_replaced("i", 7, "req-after")
    assert later.begun_kind("i", 7, "req-after") is None


def test_same_action_of_another_request_begins_anew(folder: Path) -> None:
    noted = UnreportedResults(folder)
    noted.begin("i", 7, "req-before", REBUILD)
    noted.replaces("i")
    later = UnreportedResults(folder)
    later.begin("i", 7, "req-after", REBUILD)
    for results in (later, UnreportedResults(folder)):
        assert results.begun_kind("i", 7, "req-after") == REBUILD
        assert not results.has_replaced("i", 7, "req-after")


def test_two_servers_have_actions_of_one_number(folder: Path) -> None:
    noted = UnreportedResults(folder)
    noted.begin("i", 7, "req-before", REBUILD)
    noted.begin("j", 7, "req-after", STOP)
    noted.forget("j")
    assert UnreportedResults(folder).begun_kind("i", 7, "req-before") == REBUILD


def test_two_servers_have_results_of_one_number(folder: Path) -> None:
    noted = UnreportedResults(folder)
    for uuid in ("i", "j"):
        noted.keep(Result(instance_uuid=uuid, action_id=7, power_state=1, request_id=f"req-{uuid}"))
    noted.forget("j")
    later = UnreportedResults(folder)
    assert later.has("i")
    assert not later.has("j")


def test_files_of_an_earlier_release_count(folder: Path) -> None:
    folder.mkdir()
    (folder / "7.begun").write_text(f"i {REBUILD}")
    (folder / "8.json").write_text('{"instance_uuid": "j", "action_id": 8, "power_state": 1}')
    noted = UnreportedResults(folder)
    assert noted.has_replaced("i", 7, "req-any")
    assert noted.of("j", 8, "req-any") is not None
    noted.begin("i", 7, "req-any", REBUILD)
    assert noted.has_replaced("i", 7, "req-any")
    noted.forget("i")
    noted.forget("j")
    assert not [*folder.iterdir()]
