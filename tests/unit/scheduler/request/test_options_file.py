"""The JSON options file: read when it changes, never half."""

import os
from pathlib import Path

import pytest

from minova import errors
from minova.scheduler.request.options_file import OptionsFile


def change(path: Path, text: str) -> None:
    """As an operator would: a new file in the place of the old one."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "options.json"


def test_without_a_path_there_is_nothing() -> None:
    assert OptionsFile("").content() == {}


def test_a_missing_file_is_empty_and_may_come_and_go(path: Path) -> None:
    file = OptionsFile(str(path))
    assert file.content() == {}
    change(path, '{"a": 1}')
    assert file.content() == {"a": 1}
    path.unlink()
    assert file.content() == {}


def test_it_is_read_again_when_it_changes_and_only_then(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    change(path, '{"a": 1}')
    file = OptionsFile(str(path))
    first = file.content()
    assert file.content() is first
    change(path, '{"a": 2}')
    assert file.content() == {"a": 2}
    assert len(caplog.messages) == 1


def test_one_written_in_place_within_the_same_second_is_seen(path: Path) -> None:
    path.write_text('{"a": 1}')
    file = OptionsFile(str(path))
    before = path.stat()
    path.write_text('{"a": 2}')
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1000))
    assert file.content() == {"a": 2}


MALFORMED = [
    ('{"a": 1,\n "b" 2}', "line 2 column 6"),
    ("", "line 1 column 1"),
    ("[1, 2]", "top level must be an object"),
]


@pytest.mark.parametrize(("text", "place"), MALFORMED)
def test_malformed_at_the_start_it_is_an_error_that_names_file_and_place(path: Path, text: str, place: str) -> None:
    path.write_text(text)
    with pytest.raises(errors.InvalidConfiguration, match=f"scheduler_json_config_location: {path}.*{place}"):
        OptionsFile(str(path))


@pytest.mark.parametrize(("text", "place"), MALFORMED)
def test_malformed_later_the_last_good_one_stays_in_force_and_the_log_says_so_once(
    path: Path, text: str, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    change(path, '{"a": 1}')
    file = OptionsFile(str(path))
    change(path, text)
    assert file.content() == file.content() == {"a": 1}
    assert place in caplog.text
    assert str(path) in caplog.text
    assert caplog.text.count("stays in force") == 1
    change(path, '{"a": 3}')
    assert file.content() == {"a": 3}


def test_bytes_that_are_no_text_are_malformed_too(path: Path) -> None:
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(errors.InvalidConfiguration, match=str(path)):
        OptionsFile(str(path))


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidConfiguration, match="Is a directory"):
        OptionsFile(str(tmp_path))
