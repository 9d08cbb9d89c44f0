"""The network filters of a host, over a connection that notes them."""

import threading
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import libvirt
import msgspec
import pytest

from minova.errors import HypervisorError
from minova.objects.network.vif import GroupMembers, MemberRanges, Vif, VifAddress, VifRule, filter_name
from minova.virt.libvirt.networking.filters import PortFilters
from tests.fakes.libvirt_errors import libvirt_error


class Connection:
    """libvirt refuses the filters whose XML has one of `refused`."""

    def __init__(self, *refused: str) -> None:
        self.refused, self.alive = refused, True
        self.defined: list[str] = []
        self.swept = False

    def isAlive(self) -> bool:  # noqa: N802  - libvirt's name
        return self.alive

    def nwfilterDefineXML(self, xml: str) -> None:  # noqa: N802  - libvirt's name
        if any(each in xml for each in self.refused):
            raise libvirt_error("too large")
        self.defined.append(xml)

    def listAllNWFilters(self) -> list[object]:  # noqa: N802  - libvirt's name
        self.swept = True
        return []


def vif(port_id: str) -> Vif:
    return Vif(port_id=port_id, mac_address="fa:16:3e:00:00:01", network_id="n", network_type="flat")


class Host(Connection):
    """Keeps filters, as libvirt does."""

    def listAllNWFilters(self) -> list[Any]:  # noqa: N802  - libvirt's name
        return [SimpleNamespace(name=lambda xml=xml: named(xml), XMLDesc=lambda xml=xml: xml) for xml in self.defined]

    def nwfilterLookupByName(self, name: str) -> Any:  # noqa: N802  - libvirt's name
        if name in {named(xml) for xml in self.defined}:
            return SimpleNamespace(undefine=lambda: self._undefine(name))
        raise libvirt_error("no such filter", libvirt.VIR_ERR_NO_NWFILTER)

    def _undefine(self, name: str) -> None:
        self.defined = [xml for xml in self.defined if named(xml) != name]


def named(xml: str) -> str:
    return str(ET.fromstring(xml).get("name"))


BOTH = (VifAddress(subnet_id="4", ip_address="192.0.2.5"), VifAddress(subnet_id="6", ip_address="2001:db8::5"))
VIFS = {uuid: (vif(f"port-of-{uuid}"),) for uuid in ("one", "two", "three", "foreign")}


def test_filter_that_libvirt_refuses_does_not_hold_up_those_of_other_instances() -> None:
    connection = Connection("port-of-one")
    refused = PortFilters(lambda numbers: None).refresh(connection, VIFS, lambda uuid: uuid != "foreign")
    assert list(refused) == ["one"]
    assert [next(uuid for uuid in VIFS if f"port-of-{uuid}" in xml) for xml in connection.defined] == ["two", "three"]
    assert connection.swept


def test_connection_that_is_lost_ends_it() -> None:
    connection = Connection("port-of-one")
    connection.alive = False
    with pytest.raises(libvirt.libvirtError):
        PortFilters(lambda numbers: None).refresh(connection, VIFS, lambda _: True)
    assert connection.defined == []


def guarded(port_id: str, group: str = "g") -> Vif:
    """Lets in the members of a group."""
    rule = VifRule(direction="ingress", ip_version=4, remotes=("10.9.0.1/32",), remote_group=group, revision=1)
    return msgspec.structs.replace(vif(port_id), rules=(rule,))


def members(revision: int, *ranges: str, group: str = "g") -> GroupMembers:
    return GroupMembers(group_id=group, revision=revision, members=(MemberRanges(ip_version=4, ranges=ranges),))


def let_in(xml: str) -> list[str | None]:
    return [
        each.get("srcipaddr")
        for each in ET.fromstring(xml).findall("rule[@direction='in']/all")
        if each.get("srcipaddr")
    ]


def test_new_members_come_into_the_filters_that_name_their_group_alone() -> None:
    host, filters = Host(), PortFilters(lambda numbers: None)
    filters.define(host, [guarded("one"), guarded("two", "other"), vif("three"), guarded("four")])
    filters.remove(host, [filter_name("four")])
    before = len(host.defined)
    for _ in range(2):  # the message comes twice
        assert filters.refresh_members(host, [members(3, "10.9.0.1/32", "10.9.0.7/32")]) == {}
    (changed,) = host.defined[before:]
    assert (named(changed), let_in(changed)) == (filter_name("one"), ["10.9.0.1", "10.9.0.7"])
    # A message that was late, also one that the guest's own interface comes with.
    assert filters.refresh_members(host, [members(2, "10.9.0.9/32")]) == {}
    filters.define(host, [guarded("one")])
    assert let_in(host.defined[-1]) == ["10.9.0.1", "10.9.0.7"]


def test_a_filter_that_has_gone_does_not_come_back_with_its_groups_members() -> None:
    """Something else has removed it."""
    host, filters = Host(), PortFilters(lambda numbers: None)
    filters.define(host, [guarded("one")])
    host.defined.clear()
    assert filters.refresh_members(host, [members(3, "10.9.0.7/32")]) == {}
    assert host.defined == []


def test_a_filter_that_libvirt_refuses_does_not_keep_members_from_others() -> None:
    host, filters = Host(), PortFilters(lambda numbers: None)
    filters.define(host, [guarded("one"), guarded("two")])
    host.refused = ("minova-port-one",)
    assert list(filters.refresh_members(host, [members(3, "10.9.0.7/32")])) == ["one"]
    assert (named(host.defined[-1]), let_in(host.defined[-1])) == (filter_name("two"), ["10.9.0.7"])


GRE = VifRule(direction="ingress", ip_version=4, protocol="gre")
UNNAMED = VifRule(direction="egress", ip_version=6, protocol="200")


def test_protocols_that_libvirt_does_not_know_are_known_by_sets() -> None:
    host, port_sets = Host(), list[Collection[int]]()
    PortFilters(port_sets.append).define(
        host, [msgspec.structs.replace(vif("one"), addresses=BOTH, rules=(GRE, UNNAMED))]
    )
    assert port_sets == [{47, 200}]
    (xml,) = host.defined
    rules = ET.fromstring(xml).findall("rule")
    set_rules = [(rule.get("direction"), each.tag, each.attrib) for rule in rules for each in rule if each.get("ipset")]
    assert set_rules == [
        ("in", "all", {"state": "NEW,ESTABLISHED", "ipset": "minova-protocol-47-4", "ipsetflags": "src,src"}),
        ("out", "all-ipv6", {"ipset": "minova-protocol-200-6", "ipsetflags": "src,src"}),
    ]


def test_a_host_without_sets_lets_these_protocols_not_through_and_keeps_its_filter() -> None:
    def refuse(numbers: Collection[int]) -> None:
        raise HypervisorError("ipset is not installed")

    host = Host()
    tcp = VifRule(direction="ingress", ip_version=4, protocol="tcp", port_min=22, port_max=22)
    PortFilters(refuse).define(host, [msgspec.structs.replace(vif("one"), addresses=BOTH, rules=(GRE, tcp))])
    (xml,) = host.defined
    assert "ipset" not in xml
    # No rule without the set, which would let every protocol in.
    accepted = [rule.find("all") for rule in ET.fromstring(xml).findall("rule[@action='accept'][@direction='in']")]
    assert [each.attrib for each in accepted if each is not None] == [{"state": "RELATED"}]
    assert ET.fromstring(xml).find("rule/tcp[@dstportstart='22']") is not None


def test_other_filters_need_no_sets() -> None:
    def refuse(numbers: Collection[int]) -> None:
        raise AssertionError(numbers)

    host = Host()
    PortFilters(refuse).define(host, [vif("one")])
    assert len(host.defined) == 1


def with_gre(port_id: str) -> Vif:
    return msgspec.structs.replace(guarded(port_id), addresses=BOTH, rules=(GRE, *(guarded(port_id).rules or ())))


def test_bug_filters_of_all_guests_waited_for_the_sets_of_one() -> None:
    request_sent, answer = threading.Event(), threading.Event()

    def make(numbers: Collection[int]) -> None:
        request_sent.set()
        answer.wait(20)

    host, filters = Host(), PortFilters(make)
    slow = threading.Thread(target=filters.define, args=(host, [with_gre("slow")]), daemon=True)
    other = threading.Thread(target=filters.define, args=(host, [vif("other")]), daemon=True)
    slow.start()
    try:
        assert request_sent.wait(20)
        other.start()
        other.join(10)
        assert [named(xml) for xml in host.defined] == [filter_name("other")]
    finally:
        answer.set()
        slow.join(20)
    assert "ipset" in host.defined[-1]


def test_rules_that_wait_for_sets_do_not_replace_newer_ones() -> None:
    host = Host()
    newer = [vif("one")]

    def make(numbers: Collection[int]) -> None:
        if newer:
            filters.define(host, [newer.pop()])

    filters = PortFilters(make)
    filters.define(host, [with_gre("one")])
    assert len(host.defined) == 2
    assert not any("ipset" in xml for xml in host.defined)


def test_bug_guest_that_was_off_did_not_start_without_a_set_that_was_destroyed() -> None:
    """libvirt accepts the filter of a guest that is off, and looks for the set when the guest starts. So each start makes its sets; new
    members of groups make none.
    """
    port_sets: list[Collection[int]] = []
    host, filters = Host(), PortFilters(port_sets.append)
    for _ in range(2):
        filters.define(host, [with_gre("one")])
    filters.refresh_members(host, [members(3, "10.9.0.7/32")])
    assert port_sets == [{47}, {47}]
    # They may be gone if libvirt refuses a filter.
    host.refused = ("minova-port-one",)
    assert list(filters.refresh_members(host, [members(4, "10.9.0.8/32")])) == ["one"]
    host.refused = ()
    assert filters.refresh_members(host, [members(5, "10.9.0.9/32")]) == {}
    assert port_sets == [{47}, {47}, {47}]


def test_bug_start_without_the_helper_took_the_rules_of_other_guests() -> None:
    """Its own rule lets nothing through until the next round. The set of the others is there."""
    host, is_away = Host(), False

    def make(numbers: Collection[int]) -> None:
        if is_away:
            raise HypervisorError("the helper is away")

    filters = PortFilters(make)
    filters.define(host, [with_gre("one"), with_gre("two")])
    is_away = True
    filters.define(host, [with_gre("one")])
    assert "ipset" not in host.defined[-1]
    assert filters.refresh_members(host, [members(3, "10.9.0.7/32")]) == {}
    assert all("ipset" in xml for xml in host.defined[-2:])


def test_bug_a_helper_that_does_not_answer_was_asked_for_each_port() -> None:
    port_sets: list[Collection[int]] = []

    def refuse(numbers: Collection[int]) -> None:
        port_sets.append(numbers)
        raise HypervisorError("minova-network-helper does not answer")

    host, filters = Host(), PortFilters(refuse)
    vifs = {port_id: (with_gre(port_id),) for port_id in ("one", "two", "three")}
    # Not the sweep of a host without domains.
    filters.await_guest(vifs)
    host.listAllDomains = list  # type: ignore[attr-defined]
    assert filters.refresh(host, vifs, lambda _: True) == {}
    assert (len(port_sets), len(host.defined)) == (1, 3)
    assert filters.refresh_members(host, [members(3, "10.9.0.7/32")]) == {}
    assert (len(port_sets), len(host.defined)) == (2, 6)
