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
    assert f"There is no file {tmp_path}/state/minova.sqlite of the database. Run: minova-manage db upgrade" in said
