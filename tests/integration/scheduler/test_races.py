"""Four scheduler processes on a cloud that has not room for all. The whole scale: `python -m tests.benchmarks.races`."""

from collections.abc import Callable

import pytest

from tests.functional.scheduler.race import race


@pytest.mark.parametrize(
    "engine", ["postgresql", pytest.param("mariadb", marks=pytest.mark.nightly("as PostgreSQL, with its own locks"))]
)
def test_nothing_is_given_twice_and_every_refusal_has_its_reason(engine: str, request: pytest.FixtureRequest) -> None:
    """No inventory over its limit, no policy of a group broken, no allocation without a consumer: `race` asserts it."""
    fresh_url: Callable[[], str] = request.getfixturevalue(f"fresh_{engine}_url")
    outcome = race(fresh_url(), schedulers=4, requests=240)
    # How many fit depends on the order in which they come.
    assert outcome.given > 100
    assert outcome.refused > 30
