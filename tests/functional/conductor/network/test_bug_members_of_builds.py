"""A server was built with members of its groups that were no longer theirs, and its host did not hear of it for up to a minute."""

import uuid
from typing import Any

import msgspec
import pytest

from minova.db.networks import group_members
from minova.objects.network.network import SecurityGroup
from minova.objects.requests.build_extras import RequestedNic
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.network_cases import PROJECT, let_in, network, on, port, rules_on, subnet


@pytest.fixture(autouse=True)
def _moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a test is within it."""
    monkeypatch.setattr(group_members, "RECENT", 600.0)


def remotes(instance: Any) -> set[str]:
    rules = [rule for vif in instance.network_info for rule in vif.rules or ()]
    return {remote for rule in rules for remote in rule.remotes or ()}


def delete(harness: ConductorHarness, server: str) -> None:
    harness.delete(server)
    harness.settle()
    harness.conductor.instance_deleted(CTX, instance_uuid=server, host="a")
    harness.settle()


def running(harness: ConductorHarness, **more: Any) -> str:
    server = harness.active(**more)
    harness.settle()
    return server


def test_group_without_hosts(harness: ConductorHarness) -> None:
    """No host is told of its members, and what was read of them is old all the same."""
    flat = network(harness, network_type="flat", physical_network="dc1")
    subnet(harness, flat, "10.1.0.0/24")
    first = running(harness, **on(flat))
    rules_on(harness, "a")
    delete(harness, first)
    (second,) = harness.create(1, **on(flat))
    port(harness, flat)
    harness.settle()
    assert remotes(harness.claim("a", second)) == {"10.1.0.3/32", "10.1.0.4/32"}


def test_host_that_is_about_to_claim_is_told(harness: ConductorHarness) -> None:
    """What the claim has read it may have read before."""
    flat = network(harness, network_type="flat", physical_network="dc1")
    subnet(harness, flat, "10.1.0.0/24")
    harness.create(1, **on(flat))
    host = harness.hosts["a"]
    host.members.clear()
    port(harness, flat)
    harness.settle()
    assert [members.ranges("", 4) for members in host.members] == [("10.1.0.2/31",)]


def test_group_whose_row_has_the_id_of_one_that_is_gone(harness: ConductorHarness) -> None:
    """SQLite gives ids of rows again."""
    flat = network(harness, network_type="flat", physical_network="dc1", shared=True)
    subnet(harness, flat, "10.1.0.0/24")
    port(harness, flat)

    def group(project_id: str) -> str:
        security_group = SecurityGroup(id=str(uuid.uuid4()), name="web", project_id=project_id)
        harness.conductor.create_security_groups(CTX, groups=(security_group,))[0]
        own = let_in(security_group.id, ethertype="IPv4", remote_group_id=security_group.id)
        harness.conductor.create_security_group_rules(
            CTX, rules=(msgspec.structs.replace(own, project_id=project_id),)
        )[0]
        return security_group.id

    def in_group(group_id: str) -> dict[str, Any]:
        return {"requested_networks": (RequestedNic(network_id=flat.id, security_groups=(group_id,)),)}

    alien = group("other")
    server = running(harness, **in_group(alien))
    rules_on(harness, "a")
    delete(harness, server)
    harness.conductor.delete_security_group(CTX, group_id=alien)
    (mine,) = harness.create(1, **in_group(group(PROJECT)))
    assert remotes(harness.claim("a", mine)) == {"10.1.0.4/32"}
