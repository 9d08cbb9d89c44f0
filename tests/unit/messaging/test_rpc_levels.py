"""Which versions are sent: what operators pin, what the oldest living service serves, and what is not known."""

from types import SimpleNamespace
from typing import Any

import pytest

from minova import errors
from minova.messaging import rpc_levels
from minova.messaging.rpc_levels import CURRENT, RELEASED, Levels
from minova.objects.hosts.service import SERVICE_VERSION
from tests.waiting import wait_for


def conf(**pins: str) -> Any:
    return SimpleNamespace(upgrade_levels={"conductor": "auto", "compute": "auto", "scheduler": "auto"} | pins)


def test_services_of_the_last_release_serve_its_versions_and_newer_ones_all_that_we_know() -> None:
    for topic, version in CURRENT.items():
        assert rpc_levels.version_of(topic, 0) == RELEASED[0][topic]
        assert rpc_levels.version_of(topic, SERVICE_VERSION) == version
        assert rpc_levels.version_of(topic, SERVICE_VERSION + 1) == version


def test_nothing_is_limited_before_anything_is_known() -> None:
    levels = Levels(conf())
    assert [levels.of(topic) for topic in CURRENT] == [None, None, None]
    # A compute that is told nothing takes its conductor for the last release, and says no goodbye when it stops.
    assert levels.by_topic() == CURRENT


def test_the_oldest_living_service_sets_the_level() -> None:
    levels = Levels(conf())
    levels.follow(lambda: {"compute": 0, "conductor": SERVICE_VERSION, "unknown": 0})
    assert levels.of("compute") == RELEASED[0]["compute"]
    assert levels.of("conductor") == CURRENT["conductor"]
    assert levels.of("scheduler") is None


def test_a_pinned_level_stands_whatever_is_registered() -> None:
    levels = Levels(conf(compute="1.0"))
    levels.follow(lambda: {"compute": SERVICE_VERSION})
    assert levels.of("compute") == "1.0"
    assert levels.by_topic()["compute"] == "1.0"


@pytest.mark.parametrize("level", ["1.99", "2.0", "0.9", "newest", "1", ""])
def test_a_level_that_is_no_version_of_the_contract_is_refused(level: str) -> None:
    with pytest.raises(errors.InvalidConfiguration, match=rf"\[upgrade_levels\] compute = {level}: expected auto or"):
        Levels(conf(compute=level))


def test_a_conductor_that_says_nothing_of_versions_is_of_the_last_release() -> None:
    levels = Levels(conf())
    levels.learn({})
    assert levels.of("conductor") == RELEASED[-1]["conductor"]
    levels.learn({"conductor": CURRENT["conductor"]})
    assert levels.of("conductor") == CURRENT["conductor"]


def test_the_level_rises_once_the_last_old_service_is_replaced() -> None:
    now, lowest = [0.0], {"compute": 0}
    levels = Levels(conf(), clock=lambda: now[0])
    levels.follow(lambda: dict(lowest))
    lowest["compute"] = SERVICE_VERSION
    assert levels.of("compute") == RELEASED[0]["compute"]
    now[0] += rpc_levels.FRESH
    wait_for("the new level", lambda: levels.of("compute") == CURRENT["compute"])


def test_a_database_that_is_away_leaves_the_level_as_it_was() -> None:
    now, away = [0.0], [False]

    def read() -> dict[str, int]:
        if away[0]:
            away.append(True)
            raise errors.ServiceUnavailable("away")
        return {"compute": 0}

    levels = Levels(conf(), clock=lambda: now[0])
    levels.follow(read)
    away[0], now[0] = True, rpc_levels.FRESH
    levels.of("compute")
    wait_for("the reading", lambda: len(away) > 1)
    assert levels.of("compute") == RELEASED[0]["compute"]
