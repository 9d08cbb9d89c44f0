"""`minova-manage doctor` of root left an empty file of the database, which the user minova could not open afterwards."""

from pathlib import Path

import pytest

from minova.cmd import manage


@pytest.mark.parametrize("command", [("doctor",), ("db", "version"), ("placement", "audit"), ("unexpected", "list")])
def test_bug_commands_made_the_file_that_they_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    conf = tmp_path / "minova.conf"
    conf.write_text(f"[DEFAULT]\nstate_path = {tmp_path}/state\n")
    Path(tmp_path / "state").mkdir()
    assert manage.run(["--config-file", str(conf), *command]) != 0
    assert list(Path(tmp_path / "state").iterdir()) == []
    said = "".join(capsys.readouterr())
    assert f"{tmp_path}/state/minova.sqlite" in said
    assert "minova-manage db upgrade" in said


def test_the_folder_of_a_standalone_may_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where minova-standalone runs with --state-dir, no file of the configuration says where its database is."""
    (tmp_path / "minova.conf").touch()
    words = ["--config-file", str(tmp_path / "minova.conf"), "--state-dir", str(tmp_path / "state")]
    Path(tmp_path / "state").mkdir()
    assert manage.run([*words, "doctor"]) == 2
    said = capsys.readouterr().out
    assert f"{tmp_path}/state/minova.sqlite is not there" in said
    assert "--state-dir of minova-standalone" in said
    assert manage.run([*words, "db", "upgrade"]) == 0
    assert (tmp_path / "state/minova.sqlite").exists()
