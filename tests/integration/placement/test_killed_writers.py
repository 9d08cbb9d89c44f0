"""Eight processes on nearly full providers, three of them killed, on each engine. The full scale, by hand or at night:
`python -m tests.functional.placement.killed_writers URL`, which does 5,000 steps on 20 providers.
"""

from pathlib import Path

import pytest

from tests.functional.placement.killed_writers import race


@pytest.mark.nightly("processes that are killed for a minute; test_placement_on_servers.py races without kills")
@pytest.mark.parametrize("engine", ["sqlite", "postgresql", "mariadb"])
def test_nothing_is_given_twice_and_every_deadlock_is_answered(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    file = f"sqlite:///{tmp_path}/minova.sqlite"
    url = file if engine == "sqlite" else request.getfixturevalue(f"fresh_{engine}_url")()
    outcome = race(url, processes=8, steps=160, killed=3, providers=12)
    assert outcome.given > 25
    assert outcome.killed == 3
