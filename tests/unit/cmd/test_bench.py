"""`minova-manage bench scheduler`: a row for each request, chain and number of hosts."""

import json

import pytest

from minova.cmd import manage

REQUESTS = ["plain", "zone-group", "pinned-1", "pinned-2"]


def test_rows_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert manage.run(["bench", "scheduler", "--hosts", "20,40", "--runs", "2", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["hosts"], row["chain"], row["request"]) for row in rows] == [
        (hosts, chain, request) for hosts in (20, 40) for chain in ("default", "classic") for request in REQUESTS
    ]
    assert all(0 < row["median_ms"] <= row["p99_ms"] for row in rows)


def test_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert manage.run(["bench", "scheduler", "--hosts", "20", "--runs", "1"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 9


@pytest.mark.parametrize("words", [["--hosts", "0"], ["--hosts", "many"], ["--runs", "0"]])
def test_numbers_that_are_none(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        manage.run(["bench", "scheduler", *words])
    assert words[0] in capsys.readouterr().err
