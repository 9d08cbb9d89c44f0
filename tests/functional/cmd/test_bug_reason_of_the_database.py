"""An operator reads why the database does not answer, from each command and service; a user does not."""

import logging
import threading
from pathlib import Path

import pytest

from minova import errors
from minova.cmd import manage
from minova.db.engine import Database
from minova.service import until_available

# A port on which nothing listens.
URL = "postgresql+psycopg://minova:secret@127.0.0.1:1/minova"


@pytest.mark.parametrize(
    "command", [("db", "upgrade"), ("db", "version"), ("placement", "audit"), ("unexpected", "list")]
)
def test_commands_say_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]) -> None:
    conf = tmp_path / "minova.conf"
    conf.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n[database]\nconnection = {URL}\n")
    assert manage.run(["--config-file", str(conf), *command]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("minova-manage: The database does not answer: ")
    assert "Connection refused" in last
    assert "secret" not in last


def test_services_that_wait_for_it_say_the_reason_each_time(caplog: pytest.LogCaptureFixture) -> None:
    stopping = threading.Event()
    database = Database(URL)

    def ask() -> None:
        stopping.set()
        with database.read():
            raise AssertionError("it cannot answer")

    with caplog.at_level(logging.WARNING), pytest.raises(errors.ServiceUnavailable) as raised:
        until_available("database", ask, stopping)
    database.close()
    (line,) = [record.getMessage() for record in caplog.records if "trying again" in record.getMessage()]
    assert "Connection refused" in line
    assert "Connection refused" not in str(raised.value), "what a user may see"
