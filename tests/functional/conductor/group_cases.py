"""Aggregates, zones and server groups, and what a request carries of them to the scheduler."""

from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from minova import errors
from minova.context import RequestContext
from minova.db import models
from minova.hardware import errors as hardware
from minova.objects.aggregate import Aggregate
from minova.objects.instance_group import InstanceGroup
from minova.objects.numa import InstanceNUMATopology
from minova.placement.providers import aggregates, queries
from tests.functional.conductor.desk import CTX, FLAVOR, Desk
from tests.functional.scheduler.cloud import named

EVERY_FILTER = ["ServerGroupAffinityFilter", "minova.scheduler.filters.affinity:ServerGroupAntiAffinityFilter"]


def aggregate(desk: Desk, name: str = "fast", *hosts: str, **metadata: str) -> Aggregate:
    made = desk.conductor.create_aggregate(CTX, name=name, metadata=metadata)
    for host in hosts:
        made = desk.conductor.add_host_to_aggregate(CTX, aggregate_id=made.id, host=host)
    return made


def update(desk: Desk, one: Aggregate, name: str | None = None, **metadata: str | None) -> Aggregate:
    return desk.conductor.update_aggregate(CTX, aggregate_id=one.id, name=name, metadata=metadata)


def mirrored(desk: Desk, host: str) -> list[str]:
    with desk.db.read() as session:
        return aggregates.of_provider(session, queries.find(session, named(host)).id)


def announced(desk: Desk, work: Any) -> list[str]:
    """The hosts whose nodes are in the feed after `work`, and were not before."""
    query = select(models.HostChange.seq, models.ComputeNode.host)
    query = query.join(models.ComputeNode, models.ComputeNode.id == models.HostChange.node_id)
    with desk.db.read() as session:
        before = {row[0] for row in session.execute(query)}
    work()
    with desk.db.read() as session:
        assert not session.scalars(select(models.HostChange).where(models.HostChange.node_id == 0)).all()
        return sorted({row[1] for row in session.execute(query) if row[0] not in before})


class AggregateCases:
    def test_an_aggregate_is_made_changed_and_removed(self, desk: Desk) -> None:
        made = aggregate(desk, "fast", "b", "a", disk="ssd", cpu="new")
        assert (made.name, made.metadata, made.hosts, made.zone) == (
            "fast",
            {"disk": "ssd", "cpu": "new"},
            ("a", "b"),
            None,
        )
        changed = update(desk, made, "faster", disk=None, net="10G")
        assert (changed.name, changed.metadata, changed.hosts) == ("faster", {"cpu": "new", "net": "10G"}, ("a", "b"))
        with pytest.raises(errors.BadRequest, match=r"Cannot remove aggregate \d+: it is not empty, and has a, b"):
            desk.conductor.delete_aggregate(CTX, aggregate_id=made.id)
        for host in "ab":
            left = desk.conductor.remove_host_from_aggregate(CTX, aggregate_id=made.id, host=host)
        assert left.hosts == ()
        desk.conductor.delete_aggregate(CTX, aggregate_id=made.id)
        assert desk.count(models.Aggregate) == 0

    def test_the_hosts_concerned_and_no_others_are_in_the_feed(self, desk: Desk) -> None:
        one = aggregate(desk)
        ask = desk.conductor
        assert announced(desk, lambda: ask.add_host_to_aggregate(CTX, aggregate_id=one.id, host="a")) == ["a"]
        assert announced(desk, lambda: ask.add_host_to_aggregate(CTX, aggregate_id=one.id, host="b")) == ["b"]
        assert announced(desk, lambda: update(desk, one, disk="ssd")) == ["a", "b"]
        assert announced(desk, lambda: ask.remove_host_from_aggregate(CTX, aggregate_id=one.id, host="a")) == ["a"]
        assert announced(desk, lambda: update(desk, one, "other")) == ["b"]

    def test_aggregates_are_mirrored_to_the_providers(self, desk: Desk) -> None:
        one, two = aggregate(desk, "one", "a"), aggregate(desk, "two", "a", "b")
        assert mirrored(desk, "a") == sorted([one.uuid, two.uuid])
        desk.conductor.remove_host_from_aggregate(CTX, aggregate_id=two.id, host="a")
        assert (mirrored(desk, "a"), mirrored(desk, "b")) == ([one.uuid], [two.uuid])

    def test_a_node_that_comes_later_is_in_the_aggregates_of_its_host(self, desk: Desk) -> None:
        one = aggregate(desk, "one", "a")
        desk.conductor.delete_compute_nodes(CTX, host="a", nodes=("a-node",))
        desk.audit("a")
        assert mirrored(desk, "a") == [one.uuid]

    def test_names_are_unique(self, desk: Desk) -> None:
        aggregate(desk, "one")
        two = aggregate(desk, "two")
        with pytest.raises(errors.Conflict, match="Aggregate one already exists"):
            aggregate(desk, "one")
        with pytest.raises(errors.Conflict, match="Aggregate one already exists"):
            update(desk, two, "one")


class ZoneCases:
    """Rules of aggregates and of the zones that they make."""

    @pytest.mark.parametrize(
        ("method", "arguments"),
        [
            ("update_aggregate", {"name": "x", "metadata": {}}),
            ("delete_aggregate", {}),
            ("add_host_to_aggregate", {"host": "a"}),
            ("remove_host_from_aggregate", {"host": "a"}),
        ],
    )
    def test_an_aggregate_that_is_not_there(self, desk: Desk, method: str, arguments: dict[str, Any]) -> None:
        with pytest.raises(errors.NotFound, match="Aggregate 99 could not be found"):
            getattr(desk.conductor, method)(CTX, aggregate_id=99, **arguments)

    def test_hosts_that_are_unknown_in_already_or_not_in(self, desk: Desk) -> None:
        one = aggregate(desk, "one", "a")
        add, remove = desk.conductor.add_host_to_aggregate, desk.conductor.remove_host_from_aggregate
        with pytest.raises(errors.NotFound, match="Compute host nobody could not be found"):
            add(CTX, aggregate_id=one.id, host="nobody")
        with pytest.raises(errors.Conflict, match=r"Aggregate \d+ already has host a"):
            add(CTX, aggregate_id=one.id, host="a")
        with pytest.raises(errors.NotFound, match=r"Cannot remove host b from aggregate \d+"):
            remove(CTX, aggregate_id=one.id, host="b")

    def test_a_host_is_in_one_zone_only(self, desk: Desk) -> None:
        aggregate(desk, "one", "a", availability_zone="north")
        two = aggregate(desk, "two", availability_zone="south")
        with pytest.raises(errors.Conflict, match="the host is already in availability zone north"):
            desk.conductor.add_host_to_aggregate(CTX, aggregate_id=two.id, host="a")
        aggregate(desk, "three", "a", availability_zone="north")
        aggregate(desk, "four", "a")

    def test_a_zone_cannot_change_into_another_than_its_hosts_are_in(self, desk: Desk) -> None:
        aggregate(desk, "one", "a", availability_zone="north")
        two = aggregate(desk, "two", "a", "b")
        with pytest.raises(errors.BadRequest, match="already in availability zone north"):
            update(desk, two, availability_zone="south")
        assert update(desk, two, availability_zone="north").zone == "north"

    def test_a_zone_with_instances_stays(self, desk: Desk) -> None:
        one = aggregate(desk, "one", "a", availability_zone="north")
        desk.active("a")
        with pytest.raises(errors.BadRequest, match="there are instances on its hosts"):
            update(desk, one, availability_zone="south")
        assert update(desk, one, "renamed", availability_zone="north", disk="ssd").name == "renamed"
        with pytest.raises(errors.Conflict, match=r"host a has 1 instance, .* from north to the default one"):
            desk.conductor.remove_host_from_aggregate(CTX, aggregate_id=one.id, host="a")

    def test_a_host_with_instances_comes_into_no_zone(self, desk: Desk) -> None:
        desk.active("a")
        one = aggregate(desk, "one", availability_zone="north")
        with pytest.raises(errors.Conflict, match="from the default one to north"):
            desk.conductor.add_host_to_aggregate(CTX, aggregate_id=one.id, host="a")
        aggregate(desk, "two", "a", disk="ssd")

    @pytest.mark.parametrize("value", [None, ""])
    def test_a_zone_is_not_taken_away(self, desk: Desk, value: str | None) -> None:
        one = aggregate(desk, "one", availability_zone="north")
        with pytest.raises(errors.BadRequest, match="cannot be taken away or be empty"):
            update(desk, one, availability_zone=value)
        assert update(desk, one, availability_zone="south").zone == "south"


class DemandCases:
    """What flavor and image ask of hosts beyond the size."""

    def test_cells_and_devices_are_in_the_request_and_the_cells_in_the_instance(self, desk: Desk) -> None:
        alias = '{"name": "qat", "vendor_id": "8086", "product_id": "0443"}'
        desk.conductor.collaborators.servers._conf.set_override("alias", [alias], group="pci")
        asked = {"hw:numa_nodes": "2", "hw:cpu_policy": "dedicated", "pci_passthrough:alias": "qat:2"}
        flavor = msgspec.structs.replace(FLAVOR, vcpus=2, extra_specs=asked)
        (uuid,) = desk.create(flavor=flavor)
        spec = desk.scheduler.specs[-1]
        assert spec.numa_topology is not None
        assert [(cell.pcpuset, cell.memory) for cell in spec.numa_topology.cells] == [
            (frozenset({0}), 256),
            (frozenset({1}), 256),
        ]
        (device,) = spec.pci_requests
        assert (device.alias_name, device.count) == ("qat", 2)
        assert device.request_id is not None
        stored = desk.instance(uuid).numa_topology
        assert msgspec.convert(stored, InstanceNUMATopology) == spec.numa_topology
        assert desk.hosts["a"].builds[0].request_spec.pci_requests == spec.pci_requests

    @pytest.mark.parametrize(
        ("asked", "kind"),
        [
            ({"hw:numa_nodes": "0"}, hardware.InvalidNUMANodesNumber),
            ({"hw:mem_page_size": "huge"}, hardware.MemoryPageSizeInvalid),
            ({"pci_passthrough:alias": "qat:1"}, hardware.PciRequestAliasNotDefined),
        ],
    )
    def test_what_cannot_be_asked_for_makes_nothing(
        self, desk: Desk, asked: dict[str, str], kind: type[Exception]
    ) -> None:
        with pytest.raises(kind):
            desk.create(flavor=msgspec.structs.replace(FLAVOR, extra_specs=asked))
        assert desk.count(models.Instance) == desk.count(models.Task) == 0

    def test_an_alias_that_cannot_be_stops_a_conductor_at_its_start(self, desk: Desk) -> None:
        desk.options["pci__alias"] = ['{"name": "qat", "colour": "red"}']
        with pytest.raises(errors.InvalidConfiguration, match=r"\[pci\] alias .*colour"):
            desk.start("two")

    def test_extra_specs_of_a_flavor(self, desk: Desk) -> None:
        update = desk.conductor.update_flavor_extra_specs
        desk.conductor.create_flavor(CTX, flavor=FLAVOR)
        assert update(CTX, flavorid="1", extra_specs={"a": "1", "b": "2"}).extra_specs == {"a": "1", "b": "2"}
        assert update(CTX, flavorid="1", extra_specs={"a": None, "b": "3"}).extra_specs == {"b": "3"}
        with pytest.raises(errors.NotFound, match="has no extra specs with key a"):
            update(CTX, flavorid="1", extra_specs={"a": None, "b": "4"})
        with pytest.raises(errors.NotFound, match="Flavor 9 could not be found"):
            update(CTX, flavorid="9", extra_specs={})
        with desk.db.read() as session:
            assert session.scalars(select(models.Flavor)).one().value.extra_specs == {"b": "3"}


class Groups:
    """What cases of groups share."""

    def group(self, desk: Desk, policy: str = "anti-affinity", **more: Any) -> InstanceGroup:
        desk.conductor.collaborators.groups._conf.set_override(
            "enabled_filters", EVERY_FILTER, group="filter_scheduler"
        )
        return desk.conductor.create_server_group(CTX, name="g", policy=policy, **more)

    def asked(self, desk: Desk) -> InstanceGroup:
        group = desk.scheduler.specs[-1].instance_group
        assert group is not None
        return group


class GroupCases(Groups):
    @pytest.mark.parametrize("policy", ["affinity", "soft-anti-affinity"])
    def test_policy_members_and_hosts_are_in_the_request(self, desk: Desk, policy: str) -> None:
        group = self.group(desk, policy)
        hint = {"group": group.uuid}
        (first,) = desk.create(scheduler_hints=hint)
        assert self.asked(desk) == _with(group, (first,))
        desk.build("a", first)
        desk.scheduler.order = ["b"] if policy.endswith("anti-affinity") else ["a"]
        (second,) = desk.create(scheduler_hints=hint)
        assert self.asked(desk) == _with(group, (first, second), "a")
        desk.build(desk.scheduler.order[0], second)
        desk.delete(first)
        desk.conductor.instance_deleted(CTX, instance_uuid=first, host="a")
        desk.create(scheduler_hints=hint)
        assert first not in self.asked(desk).members
        assert self.asked(desk).hosts == (desk.scheduler.order[0],)

    def test_a_host_counts_as_soon_as_something_is_claimed_there(self, desk: Desk) -> None:
        group = self.group(desk)
        desk.create(scheduler_hints={"group": [group.uuid]})
        desk.scheduler.order = ["b"]
        desk.create(scheduler_hints={"group": group.uuid})
        assert self.asked(desk).hosts == ("a",)

    def test_it_is_read_again_for_each_asking(self, desk: Desk) -> None:
        group = self.group(desk, max_server_per_host=2)
        desk.scheduler.mood = errors.ServiceUnavailable("No answer in time")
        (first,) = desk.create(scheduler_hints={"group": group.uuid})
        desk.scheduler.mood = None
        desk.scheduler.order = ["b"]
        (second,) = desk.create(scheduler_hints={"group": group.uuid})
        desk.build("b", second)
        desk.tick(desk.conductor, 10.0)
        assert desk.scheduler.asked[-1][0] == (first,)
        assert self.asked(desk) == _with(group, (first, second), "b")
        assert self.asked(desk).max_server_per_host == 2

    def test_an_alternate_that_the_policy_forbids_is_passed_over(self, desk: Desk) -> None:
        group = self.group(desk)
        desk.scheduler.order = ["b"]
        (first,) = desk.create(scheduler_hints={"group": group.uuid})
        desk.scheduler.order = ["a", "b", "c"]
        (second,) = desk.create(scheduler_hints={"group": group.uuid})
        desk.fail("a", second)
        assert desk.allocated() == {first: "b", second: "c"}

    def test_a_group_that_is_not_there_makes_nothing(self, desk: Desk) -> None:
        with pytest.raises(errors.BadRequest, match=f"Server group {named('g')} could not be found"):
            desk.create(scheduler_hints={"group": named("g")})
        assert desk.count(models.Instance) == desk.count(models.Task) == 0
        with pytest.raises(errors.NotFound, match="could not be found"):
            desk.conductor.delete_server_group(CTX, group_uuid=named("g"))

    def test_a_group_that_goes_lets_its_servers_go_on(self, desk: Desk) -> None:
        group = self.group(desk)
        desk.scheduler.mood = errors.ServiceUnavailable("No answer in time")
        (uuid,) = desk.create(scheduler_hints={"group": group.uuid})
        desk.scheduler.mood = None
        desk.conductor.delete_server_group(CTX, group_uuid=group.uuid)
        desk.tick(desk.conductor, 10.0)
        assert desk.scheduler.specs[-1].instance_group is None
        assert desk.allocated() == {uuid: "a"}

    def test_members_go_with_the_purge(self, desk: Desk) -> None:
        group = self.group(desk)
        desk.scheduler.order = []
        (uuid,) = desk.create(scheduler_hints={"group": group.uuid})
        desk.delete(uuid)
        assert desk.count(models.InstanceGroupMember) == 1
        desk.tick(desk.conductor, 10.0**8)
        assert desk.count(models.InstanceGroupMember) == 0


class GroupRuleCases(Groups):
    """The same on every engine: tried on one."""

    @pytest.mark.parametrize(
        ("policy", "missing"),
        [
            ("affinity", "ServerGroupAffinityFilter is not in [filter_scheduler] enabled_filters"),
            ("anti-affinity", "ServerGroupAntiAffinityFilter is not in [filter_scheduler] enabled_filters"),
            ("soft-affinity", "ServerGroupSoftAffinityWeigher is not in [filter_scheduler] weight_classes"),
            ("soft-anti-affinity", "ServerGroupSoftAntiAffinityWeigher is not in [filter_scheduler] weight_classes"),
        ],
    )
    def test_a_policy_that_nothing_serves_is_an_error(self, desk: Desk, policy: str, missing: str) -> None:
        group = self.group(desk, policy)
        for option in ("enabled_filters", "weight_classes"):
            desk.conductor.collaborators.groups._conf.set_override(option, ["RamFilter"], group="filter_scheduler")
        (uuid,) = desk.create(scheduler_hints={"group": group.uuid})
        assert desk.state(uuid) == "error/None on None"
        assert desk.fault(uuid).startswith(
            f"UnsupportedPolicyException: Scheduling failed: Server group policy {policy}"
        )
        assert missing in desk.fault(uuid)
        assert desk.scheduler.specs == []

    def test_it_belongs_to_who_made_it(self, desk: Desk) -> None:
        bob = RequestContext(request_id="req-2", user_id="bob", project_id="other")
        group = desk.conductor.create_server_group(bob, name="g", policy="affinity")
        assert (group.user_id, group.project_id) == ("bob", "other")

    @pytest.mark.parametrize(
        ("policy", "most", "message"),
        [
            ("legacy", None, "'legacy' is none of affinity,"),
            ("affinity", 2, "Only the policy anti-affinity supports rules"),
        ],
    )
    def test_groups_that_cannot_be(self, desk: Desk, policy: str, most: int | None, message: str) -> None:
        with pytest.raises(errors.BadRequest, match=message):
            desk.conductor.create_server_group(CTX, name="g", policy=policy, max_server_per_host=most)


def _with(group: InstanceGroup, members: tuple[str, ...], *hosts: str) -> InstanceGroup:
    return InstanceGroup(
        uuid=group.uuid,
        name=group.name,
        policy=group.policy,
        max_server_per_host=group.max_server_per_host,
        project_id=group.project_id,
        user_id=group.user_id,
        members=tuple(sorted(members)),
        hosts=hosts,
    )
