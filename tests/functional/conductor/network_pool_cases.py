"""Subnet pools, address groups and deletions of one revision on every engine, also when many ask at once."""

import uuid
from typing import Any

import pytest

from minova import errors
from minova.db.networks import security_groups
from minova.objects.network.address_groups import AddressGroup
from minova.objects.network.network import SecurityGroup, SecurityGroupRule, Subnet
from minova.objects.network.subnet_pools import SubnetPool
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.network_cases import PROJECT, let_in, network, on, port, rules_on
from tests.functional.conductor.network_cases import subnet as fixed_subnet
from tests.functional.conductor.quota_cases import at_once, limit, used


def pool(harness: ConductorHarness, **values: Any) -> SubnetPool:
    bounds = {"ip_version": 4, "default_prefixlen": 26, "min_prefixlen": 8, "max_prefixlen": 30}
    subnet_pool = SubnetPool(
        id=str(uuid.uuid4()), project_id=PROJECT, **{"prefixes": ("10.0.0.0/24",), **bounds, **values}
    )
    return harness.conductor.create_subnet_pools(CTX, pools=(subnet_pool,))[0]


def subnet(harness: ConductorHarness, of: SubnetPool, length: int = 26) -> Subnet | None:
    """On a network of its own. None: the pool has no such range left, or the project not the right to it."""
    subnet = Subnet(
        id=str(uuid.uuid4()),
        network_id=network(harness).id,
        project_id=PROJECT,
        ip_version=4,
        cidr="",
        prefixlen=length,
        gateway_ip="",
        subnetpool_id=of.id,
    )
    try:
        return harness.conductor.create_subnets(CTX, subnets=(subnet,))[0]
    except (errors.SubnetAllocationError, errors.SubnetPoolQuotaExceeded):
        return None


class NetworkPoolCases:
    def test_pool_gives_no_range_twice(self, harness: ConductorHarness) -> None:
        of = pool(harness)
        subnets = at_once(lambda _: subnet(harness, of))
        given = [each.cidr for each in subnets if each is not None]
        assert sorted(given) == ["10.0.0.0/26", "10.0.0.128/26", "10.0.0.192/26", "10.0.0.64/26"]
        assert used(harness)["subnets"] == 4, "the others took no quota"

    def test_quota_of_a_pool_is_kept_when_many_ask_at_once(self, harness: ConductorHarness) -> None:
        of = pool(harness, default_quota=128)
        assert len([each for each in at_once(lambda _: subnet(harness, of)) if each is not None]) == 2

    def test_pool_is_not_deleted_while_it_gives_a_range(self, harness: ConductorHarness) -> None:
        of = pool(harness)

        def work(number: int) -> str:
            try:
                if number % 2:
                    harness.conductor.delete_subnet_pool(CTX, pool_id=of.id)
                    return "deleted"
                return "given" if subnet(harness, of) is not None else ""
            except (errors.SubnetPoolDeleteError, errors.SubnetPoolNotFound):
                return ""

        assert len({*at_once(work)} - {""}) == 1, "either some subnets have ranges of it, or it is gone"

    def test_ip_version_has_one_default_pool(self, harness: ConductorHarness) -> None:
        def work(_: int) -> bool:
            try:
                return pool(harness, is_default=True).is_default
            except errors.BadRequest:
                return False

        assert sorted(at_once(work)) == [*[False] * 7, True]
        assert used(harness)["subnetpool"] == 1

    def test_addresses_that_come_at_the_same_time_all_stay(self, harness: ConductorHarness) -> None:
        group = AddressGroup(id=str(uuid.uuid4()), project_id=PROJECT)
        harness.conductor.create_address_groups(CTX, address_groups=(group,))
        answers = at_once(
            lambda number: harness.conductor.change_addresses(CTX, group_id=group.id, add=(f"10.{number}.0.0/16",))
        )
        longest = max(answers, key=lambda each: len(each.addresses))
        assert sorted(longest.addresses) == [f"10.{number}.0.0/16" for number in range(8)]
        assert longest.revision_number == 9

    def test_address_group_is_not_deleted_while_a_rule_names_it(self, harness: ConductorHarness) -> None:
        limit(harness, security_group_rule=100)
        web = SecurityGroup(id=str(uuid.uuid4()), name="web", project_id=PROJECT)
        harness.conductor.create_security_groups(CTX, groups=(web,))
        group = AddressGroup(id=str(uuid.uuid4()), project_id=PROJECT)
        harness.conductor.create_address_groups(CTX, address_groups=(group,))

        def work(number: int) -> str:
            rule = SecurityGroupRule(
                id=str(uuid.uuid4()),
                security_group_id=web.id,
                project_id=PROJECT,
                direction="ingress",
                protocol="tcp",
                port_range_min=number + 1,
                port_range_max=number + 1,
                remote_address_group_id=group.id,
            )
            try:
                if number % 2:
                    harness.conductor.delete_address_group(CTX, group_id=group.id)
                    return "deleted"
                harness.conductor.create_security_group_rules(CTX, rules=(rule,))
            except (errors.AddressGroupInUse, errors.AddressGroupNotFound):
                return ""
            return "named"

        assert len({*at_once(work)} - {""}) == 1

    def test_change_of_an_address_group_reaches_the_hosts_at_once(self, harness: ConductorHarness) -> None:
        group = AddressGroup(id=str(uuid.uuid4()), project_id=PROJECT, addresses=("10.8.0.0/16",))
        harness.conductor.create_address_groups(CTX, address_groups=(group,))
        flat = network(harness, network_type="flat", physical_network="dc1")
        fixed_subnet(harness, flat, "10.1.0.0/24")
        harness.active(**on(flat))
        with harness.db.read() as session:
            default = security_groups.default_of(session, PROJECT)
        opened = let_in(str(default), protocol="tcp", remote_address_group_id=group.id)
        harness.conductor.create_security_group_rules(CTX, rules=(opened,))
        harness.settle()
        before = harness.hosts["a"].refreshed
        harness.conductor.change_addresses(CTX, group_id=group.id, add=("10.9.0.0/16",), remove=("10.8.0.0/16",))
        harness.settle()
        assert harness.hosts["a"].refreshed > before
        (rules,) = rules_on(harness, "a").values()
        assert [rule.remotes for rule in rules or () if rule.protocol == "tcp"] == [("10.9.0.0/16",)]

    @pytest.mark.parametrize("kind", ["network", "subnet", "port", "security_group"])
    def test_bug_deletion_did_not_see_a_change_after_its_revision_was_judged(
        self, harness: ConductorHarness, kind: str
    ) -> None:
        """The API judged `If-Match`, and the conductor deleted whatever revision there was."""
        conductor = harness.conductor
        blue = network(harness)
        if kind == "network":
            resource_id, argument = blue.id, "network_id"
        elif kind == "subnet":
            resource_id, argument = fixed_subnet(harness, blue, "10.1.0.0/24").id, "subnet_id"
        elif kind == "port":
            resource_id, argument = port(harness, blue).id, "port_id"
        else:
            group = SecurityGroup(id=str(uuid.uuid4()), name="web", project_id=PROJECT)
            resource_id, argument = conductor.create_security_groups(CTX, groups=(group,))[0].id, "group_id"
        conductor.update_network_tags(CTX, kind=kind, resource_id=resource_id, add=("changed",))
        delete = getattr(conductor, f"delete_{kind}")
        with pytest.raises(errors.PreconditionFailed, match="Constrained to 1, but current revision is 2"):
            delete(CTX, **{argument: resource_id}, revision=1)
        delete(CTX, **{argument: resource_id}, revision=2)
