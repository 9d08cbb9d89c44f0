"""An interface and the members of its groups are told in messages of their own, in any order."""

import msgspec

from minova.objects.network.network import LOCAL
from minova.objects.network.vif import GroupMembers, MemberRanges, Vif, VifRule
from minova.virt.port_rules import MAX_GROUPS, PortRules


def vif(port_id: str, revision: int, *ranges: str, network_type: str = "flat") -> Vif:
    rule = VifRule(direction="ingress", ip_version=4, remotes=ranges, remote_group="g", revision=revision)

    every = (rule, VifRule(direction="egress", ip_version=4))
    return Vif(port_id=port_id, mac_address="fa:16:3e:00:00:01", network_id="n", network_type=network_type, rules=every)


def members(revision: int, *ranges: str, group: str = "g", network: str = "") -> GroupMembers:
    told = MemberRanges(network_id=network, ip_version=4, ranges=ranges)
    return GroupMembers(group_id=group, revision=revision, members=(told,))


def lets_in(found: Vif) -> list[tuple[str, ...] | None]:
    return [rule.remotes for rule in found.rules or ()]


def test_newer_members_stand_in_the_rules_whichever_message_comes_first() -> None:
    rules = PortRules()
    assert lets_in(rules.define(vif("early", 4, "10.0.0.1/32"))) == [("10.0.0.1/32",), None]
    assert [each.port_id for each in rules.learn([members(5, "10.0.0.2/32")])] == ["early"]
    assert lets_in(rules.define(vif("late", 4, "10.0.0.1/32"))) == [("10.0.0.2/32",), None]
    assert lets_in(rules.define(vif("later", 6, "10.0.0.3/32"))) == [("10.0.0.3/32",), None]
    assert rules.learn([members(5, "10.0.0.9/32"), members(4, "10.0.0.9/32")]) == []
    rules_by_name = {name: rules.current(name) for name in ("early", "late", "later")}
    assert [each and lets_in(each)[0] for each in rules_by_name.values()] == [
        ("10.0.0.2/32",),
        ("10.0.0.2/32",),
        ("10.0.0.3/32",),
    ]


def test_members_that_are_the_same_change_nothing() -> None:
    rules = PortRules()
    rules.define(vif("p", 4, "10.0.0.1/32"))
    assert rules.learn([members(5, "10.0.0.1/32")]) == []


def test_rule_without_members_lets_them_in_when_they_are_told() -> None:
    """It had too many of them."""
    rules = PortRules()
    rules.learn([members(5, "10.0.0.1/32")])
    assert lets_in(rules.define(vif("p", 0)))[0] == ("10.0.0.1/32",)


def test_members_on_other_networks_do_not_reach_a_local_one() -> None:
    rules = PortRules()
    rules.define(vif("p", 1, "10.0.0.1/32", network_type=LOCAL))
    of_both = msgspec.structs.replace(
        members(5, "10.0.0.0/30"),
        members=(*members(5, "10.0.0.0/30").members, *members(5, "10.0.0.2/32", network="n").members),
    )
    (changed,) = rules.learn([of_both])
    assert lets_in(changed)[0] == ("10.0.0.2/32",)


def test_an_interface_that_is_forgotten_is_not_named_again() -> None:
    rules = PortRules()
    rules.define(vif("p", 1, "10.0.0.1/32"))
    rules.forget("p")
    assert rules.learn([members(5, "10.0.0.2/32")]) == []
    assert rules.current("p") is None


def test_groups_are_forgotten_that_were_told_long_ago() -> None:
    rules = PortRules()
    rules.learn([members(5, "10.0.0.2/32")])
    rules.learn([members(1, "10.0.0.3/32", group=f"g{number}") for number in range(MAX_GROUPS)])
    assert lets_in(rules.define(vif("p", 4, "10.0.0.1/32")))[0] == ("10.0.0.1/32",)
