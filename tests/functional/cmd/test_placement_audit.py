import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minova.cmd.manage import run
from minova.db.engine import Database
from tests.functional.placement.audit_cases import boot
from tests.functional.placement.cases import claim, claim_of, held, hosts
from tests.functional.scheduler.cloud import named
from tests.tables import make_tables


class Operator:
    def __init__(self, url: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._conf = folder / "minova.conf"
        self._conf.write_text(f"[database]\nconnection = {url}\n")
        self._capsys = capsys
        self.complaint = ""

    def audit(self, *words: str, code: int = 0) -> str:
        assert run(["--config-file", str(self._conf), "placement", "audit", *words]) == code
        captured = self._capsys.readouterr()
        self.complaint = captured.err
        return captured.out

    def rows(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.audit("--json", *words, code=code))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/minova.sqlite"


@pytest.fixture
def db(url: str) -> Iterator[Database]:
    make_tables(url)
    database = Database(url)
    hosts(database, "a", "b")
    yield database
    database.close()


@pytest.fixture
def operator(db: Database, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Operator:
    return Operator(url, tmp_path, capsys)


def test_in_order(operator: Operator) -> None:
    assert operator.audit() == "Nothing is wrong.\n"
    assert operator.rows() == []


def test_dry_it_says_what_it_would_do_and_does_nothing(operator: Operator, db: Database) -> None:
    claim(db, claim_of("ghost", "a"))
    boot(db, "one", "a", allocated="b")
    before = held(db, "ghost"), held(db, "one")
    out = operator.audit()
    assert out.splitlines()[0].split() == ["PROBLEM", "OF", "WHAT", "IS", "WRONG", "TO", "BE", "DONE"]
    assert named("ghost") in out
    assert "release what it holds" in out
    assert "move it to a" in out
    assert (held(db, "ghost"), held(db, "one")) == before


def test_it_puts_right_and_says_what_it_did(operator: Operator, db: Database) -> None:
    claim(db, claim_of("ghost", "a"))
    (row,) = operator.rows()
    assert (row["problem"], row["consumer_uuid"], row["healed"]) == (
        "allocation without instance",
        named("ghost"),
        None,
    )
    (row,) = operator.rows("--fix")
    assert (row["healed"], row["reason"], row["remedy"]) == (True, None, "release what it holds")
    assert operator.audit("--fix") == "Nothing is wrong.\n"


def test_what_it_cannot_put_right_is_an_error_that_says_why(operator: Operator, db: Database) -> None:
    boot(db, "big", "a", allocated="")
    claim(db, claim_of("full", "a", VCPU=4))
    boot(db, "full", "a", allocated="")
    out = operator.audit("--fix", code=1)
    assert "not done: Unable to allocate inventory" in out
    assert "free VCPU 0 < requested 1" in out
    assert operator.complaint == "minova-manage: 1 of 1 findings were left as they are.\n"


def test_without_tables_it_says_which_command_makes_them(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    operator = Operator(f"{url}.none", tmp_path, capsys)
    (tmp_path / "minova.sqlite.none").touch()
    operator.audit(code=1)
    assert "Run: minova-manage db upgrade" in operator.complaint
