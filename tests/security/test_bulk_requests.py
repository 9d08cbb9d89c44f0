"""One request for many resources costs no more than its size explains, and less than its quota allows."""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minova import errors
from minova.api.network.resource import MAX_BULK
from minova.db.networks import subnets
from minova.objects.network.network import SecurityGroup, SecurityGroupRule
from tests.functional.api.conftest import Cloud
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.network_cases import PROJECT, network, new_subnet
from tests.functional.conductor.quota_cases import limit
from tests.security.identities import login, with_users
from tests.tables import create_all

# More than the body of a request can have: about 1,000.
MANY = 2000


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ConductorHarness]:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    create_all(url)
    harness = ConductorHarness(url, hosts=("a",))
    yield harness
    harness.close()


def rules(group: SecurityGroup, count: int) -> tuple[SecurityGroupRule, ...]:
    """The last one has traffic of its own, as all others: the comparison of pairs would find none."""
    common: dict[str, Any] = {"security_group_id": group.id, "project_id": PROJECT, "direction": "ingress"}
    return tuple(
        SecurityGroupRule(id=str(uuid.uuid4()), remote_ip_prefix=f"10.{number // 256}.{number % 256}.0/24", **common)
        for number in range(count)
    )


def test_bug_rules_are_compared_in_pairs_before_their_quota(harness: ConductorHarness) -> None:
    group = SecurityGroup(id=str(uuid.uuid4()), name="web", project_id=PROJECT)
    harness.conductor.create_security_groups(CTX, groups=(group,))
    limit(harness, security_group_rule=100)
    before = time.process_time()
    with pytest.raises(errors.Forbidden, match="security_group_rule"):
        harness.conductor.create_security_group_rules(CTX, rules=rules(group, MANY))
    assert time.process_time() - before < 3
    limit(harness, security_group_rule=-1)
    harness.conductor.create_security_group_rules(CTX, rules=rules(group, MANY))
    before = time.process_time()
    *new, old = (*rules(group, MANY + 1)[MANY:], rules(group, MANY)[-1])
    with pytest.raises(errors.SecurityGroupRuleExists):
        harness.conductor.create_security_group_rules(CTX, rules=(*new, old))
    assert time.process_time() - before < 3


def test_bug_subnets_are_made_before_their_quota(harness: ConductorHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = network(harness)
    written: list[str] = []
    monkeypatch.setattr(subnets, "add", lambda *_: written.append("subnet"))
    limit(harness, subnets=2)
    with pytest.raises(errors.Forbidden, match="subnets"):
        harness.conductor.create_subnets(
            CTX, subnets=tuple(new_subnet(mine, f"10.{number}.0.0/16") for number in range(3))
        )
    assert written == []


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    users = with_users(tmp_path)
    yield users
    users.close()


@pytest.mark.parametrize("plural", ["networks", "subnets", "ports", "security_groups", "security_group_rules"])
def test_bug_a_request_for_any_number_of_resources(cloud: Cloud, plural: str) -> None:
    unknown = str(uuid.uuid4())
    of_kind: dict[str, dict[str, Any]] = {
        "networks": {},
        "subnets": {"network_id": unknown, "ip_version": 4, "cidr": "10.1.0.0/24"},
        "ports": {"network_id": unknown},
        "security_groups": {"name": "a"},
        "security_group_rules": {"security_group_id": unknown, "direction": "egress"},
    }
    path = f"/network/v2.0/{plural.replace('_', '-')}"
    for count, is_refused in ((MAX_BULK, False), (MAX_BULK + 1, True)):
        status, answer = cloud.ask("POST", path, {plural: [of_kind[plural]] * count}, headers=login("alice"))
        reason = f"{MAX_BULK} {plural} at most"
        assert (status == 400 and reason in answer["NeutronError"]["message"]) is is_refused, answer
