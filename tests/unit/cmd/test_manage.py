from pathlib import Path

import pytest

from minova.cmd.manage import run
from minova.db import schema


@pytest.fixture
def conf_file(tmp_path: Path) -> str:
    path = tmp_path / "minova.conf"
    path.write_text(f"[database]\nconnection = sqlite:///{tmp_path}/new/minova.sqlite\n")
    return str(path)


def manage(conf_file: str, *words: str) -> int:
    return run(["--config-file", conf_file, *words])


def test_upgrade_makes_the_tables_and_version_tells_them(conf_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert manage(conf_file, "db", "upgrade") == 0
    assert manage(conf_file, "db", "upgrade") == 0
    assert manage(conf_file, "db", "version") == 0
    assert capsys.readouterr().out.split() == [schema.head()] * 3


def test_without_tables_version_says_which_command_makes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "minova.conf"
    path.write_text(f"[database]\nconnection = sqlite:///{tmp_path}/minova.sqlite\n")
    assert manage(str(path), "db", "version") == 1
    assert "Run: minova-manage db upgrade" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["db"], ["db", "sideways"], ["dance"]])
def test_a_wrong_command_is_a_usage_error(conf_file: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        manage(conf_file, *words)
    assert exited.value.code == 2
    assert "usage: minova-manage" in capsys.readouterr().err


def test_a_configuration_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert manage(str(tmp_path / "none.conf"), "db", "version") == 1
    assert "none.conf" in capsys.readouterr().err


def test_a_url_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "minova.conf"
    for url in ("nonsense", "oracle://x", "sqlite:////proc/none/minova.sqlite"):
        path.write_text(f"[database]\nconnection = {url}\n")
        assert manage(str(path), "db", "upgrade") == 1
        assert capsys.readouterr().err.startswith("minova-manage: ")
