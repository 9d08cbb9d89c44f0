"""minova answers the scenarios of tests/conformance/data as Nova did.

`answer-*` are Nova's own. Where one of Nova's defects that minova does not follow has part in them (docs/reference/compatibility.md),
`repaired-*` stands beside: what Nova answers without these defects.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from minova.cmd.simulate import answer
from tests.conformance.compare import differences

DATA = Path(__file__).parent / "data"
SCENARIOS = sorted(path.name.removeprefix("scenario-").removesuffix(".json.gz") for path in DATA.glob("scenario-*"))


def load(kind: str, name: str) -> Any:
    return json.loads(gzip.decompress((DATA / f"{kind}-{name}.json.gz").read_bytes()))


def is_there(kind: str, name: str) -> bool:
    return (DATA / f"{kind}-{name}.json.gz").exists()


@pytest.mark.parametrize("name", SCENARIOS)
def test_it_answers_as_nova_did(name: str) -> None:
    our_answer = json.loads(answer((DATA / f"scenario-{name}.json.gz").read_bytes()))
    right = load("repaired" if is_there("repaired", name) else "answer", name)
    assert list(differences(load("scenario", name), right, our_answer)) == []


@pytest.mark.parametrize("name", [name for name in SCENARIOS if is_there("repaired", name)])
def test_a_repaired_answer_differs_from_novas_only_after_a_winner_that_stayed_half_consumed(name: str) -> None:
    given, repaired = load("answer", name), load("repaired", name)
    unlike = [
        place
        for place, (theirs, ours) in enumerate(zip(given["requests"], repaired["requests"], strict=True))
        if theirs != ours
    ]
    first = given["requests"][unlike[0]]["consumed"], repaired["requests"][unlike[0]]["consumed"]
    before = {**given["requests"][unlike[0]], "consumed": None}
    assert before == {**repaired["requests"][unlike[0]], "consumed": None}
    assert first[0]["num_io_ops"] == first[1]["num_io_ops"] - 1


def test_every_scenario_is_there() -> None:
    assert len(SCENARIOS) == 24
    assert sum(len(load("scenario", name)["requests"]) for name in SCENARIOS) == 480
