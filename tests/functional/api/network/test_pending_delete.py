"""A port that was deleted under a running guest is there until the guest has let go of it, and users do not see it: they delete what it used."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from minova.api.network import removal
from minova.db.networks import ports
from tests.functional.api.conftest import Cloud
from tests.functional.api.network.test_networks import Json, network, port, subnet

KINDS = ["network", "subnet", "security-group"]


class Clock:
    """`looked` runs between two looks."""

    def __init__(self) -> None:
        self.now, self.looks = 0.0, 0
        self.looked: Callable[[], None] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.looks += 1
        self.looked()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(removal, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=clock.sleep))
    return clock


def mark_pending_delete(cloud: Cloud, made: Json) -> None:
    cloud.db.run(lambda session: ports.mark_pending_delete(session, made["id"]))


def let_go(cloud: Cloud, made: Json) -> None:
    def work(session: Any) -> None:
        row = ports.lock(session, made["id"])
        assert row is not None
        ports.remove(session, row.id)

    cloud.db.run(work)


def made_of(cloud: Cloud) -> dict[str, Json]:
    blue = network(cloud)
    status, answer = cloud.ask("POST", "/network/v2.0/security-groups", {"security_group": {"name": "web"}})
    assert status == 201
    return {"network": blue, "subnet": subnet(cloud, blue), "security-group": answer["security_group"]}


def deleted(cloud: Cloud, kind: str, made: dict[str, Json]) -> tuple[int, str]:
    status, answer = cloud.ask("DELETE", f"/network/v2.0/{kind}s/{made[kind]['id']}")
    return status, "" if answer is None else answer["NeutronError"]["type"]


@pytest.mark.parametrize("kind", KINDS)
def test_guest_that_lets_go_is_waited_for(cloud: Cloud, clock: Clock, kind: str) -> None:
    created = made_of(cloud)
    new_port = port(cloud, created["network"], security_groups=[created["security-group"]["id"]])
    mark_pending_delete(cloud, new_port)
    clock.looked = lambda: let_go(cloud, new_port) if clock.looks == 3 else None
    assert deleted(cloud, kind, created) == (204, "")
    assert clock.looks == 3


@pytest.mark.parametrize("kind", KINDS)
def test_guest_that_keeps_it_is_not_waited_for_without_end(cloud: Cloud, clock: Clock, kind: str) -> None:
    created = made_of(cloud)
    new_port = port(cloud, created["network"], security_groups=[created["security-group"]["id"]])
    mark_pending_delete(cloud, new_port)
    status, error = deleted(cloud, kind, created)
    assert (status, error.endswith("InUse")) == (409, True)
    assert clock.now == pytest.approx(removal.PATIENCE, abs=2 * removal.LOOK)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_port_uses_that_is_not_pending_delete_is_refused_at_once(cloud: Cloud, clock: Clock, kind: str) -> None:
    created = made_of(cloud)
    mine = {"security_groups": [created["security-group"]["id"]]}
    mark_pending_delete(cloud, port(cloud, created["network"], **mine))
    port(cloud, created["network"], **mine)
    assert deleted(cloud, kind, created)[0] == 409
    assert clock.looks == 0
