"""The file of a witness: it outlives the process, and a file that is broken is no evidence of anything."""

from pathlib import Path

import pytest

from minova import errors
from minova.objects.hosts.cloud import CloudState, CounterMark, WitnessRecord
from minova.witness import WRITE_INTERVAL, Witness

STATE = CloudState(uuid="cloud", history="first", marks=(CounterMark("a", 1, 10.0),))
LATER = CloudState(uuid="cloud", history="first", marks=(CounterMark("a", 2, 11.0),))


def test_another_process_knows_what_was_seen(tmp_path: Path) -> None:
    Witness(tmp_path / "folder" / "cloud").learn(STATE, 0.0)
    assert Witness(tmp_path / "folder" / "cloud").seen == WitnessRecord(
        uuid="cloud", history="first", marks=STATE.marks
    )


def test_marks_are_written_from_time_to_time(tmp_path: Path) -> None:
    witness = Witness(tmp_path / "cloud")
    witness.learn(STATE, 0.0)
    witness.learn(LATER, WRITE_INTERVAL / 2)
    assert Witness(tmp_path / "cloud").seen == WitnessRecord(uuid="cloud", history="first", marks=STATE.marks)
    witness.learn(LATER, WRITE_INTERVAL)
    witness.learn(CloudState(uuid="cloud", history="first", marks=(CounterMark("a", 3, 12.0),)), 2 * WRITE_INTERVAL)
    assert Witness(tmp_path / "cloud").seen == WitnessRecord(
        uuid="cloud", history="first", marks=(CounterMark("a", 3, 12.0),)
    )


def test_a_new_history_is_written_at_once(tmp_path: Path) -> None:
    witness = Witness(tmp_path / "cloud")
    witness.learn(STATE, 0.0)
    witness.learn(CloudState(uuid="cloud", history="second"), 0.1)
    assert Witness(tmp_path / "cloud").seen == WitnessRecord(uuid="cloud", history="second")


@pytest.mark.parametrize("content", [b"", b"{", b'{"uuid": 1}', b"\xff\xfe", b"[]"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "cloud").write_bytes(content)
    with pytest.raises(errors.InvalidConfiguration, match=f"{tmp_path}/cloud cannot be read.*remove it"):
        Witness(tmp_path / "cloud")


def test_bug_a_file_of_another_user_was_to_be_removed(tmp_path: Path) -> None:
    (tmp_path / "cloud").mkdir()  # root can read every file
    with pytest.raises(errors.InvalidConfiguration, match=r"cannot be read: Is a directory\. The user of this service"):
        Witness(tmp_path / "cloud")


def test_a_folder_that_cannot_be_written_is_no_reason_to_stop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_bytes(b"")
    witness = Witness(None)
    witness._path = tmp_path / "file" / "cloud"  # a folder that cannot be made, for root, too
    witness.learn(STATE, 0.0)
    witness.learn(CloudState(uuid="cloud", history="second"), 0.0)
    assert witness.seen == WitnessRecord(uuid="cloud", history="second")
    assert len([record for record in caplog.records if "cannot be written" in record.message]) == 1
