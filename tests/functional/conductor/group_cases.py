"""Aggregates, zones and server groups, and what a request carries of them to the scheduler."""

from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from minova import errors
from minova.context import RequestContext
from minova.db import models
from minova.objects.catalogue.aggregate import Aggregate
from minova.objects.catalogue.instance_group import InstanceGroup
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.placement.providers import aggregates, queries
from tests.functional.conductor.conductor_harness import CTX, FLAVOR, ConductorHarness
from tests.functional.scheduler.cloud import named

EVERY_FILTER = ["ServerGroupAffinityFilter", "minova.scheduler.filters.affinity:ServerGroupAntiAffinityFilter"]


def aggregate(harness: ConductorHarness, name: str = "fast", *hosts: str, **metadata: str) -> Aggregate:
    new_aggregate = harness.conductor.create_aggregate(CTX, name=name, metadata=metadata)
    for host in hosts:
        new_aggregate = harness.conductor.add_host_to_aggregate(CTX, aggregate_id=new_aggregate.id, host=host)
    return new_aggregate


def update(harness: ConductorHarness, one: Aggregate, name: str | None = None, **metadata: str | None) -> Aggregate:
    return harness.conductor.update_aggregate(CTX, aggregate_id=one.id, name=name, metadata=metadata)


def aggregates_in_placement(harness: ConductorHarness, host: str) -> list[str]:
    with harness.db.read() as session:
        return aggregates.of_provider(session, queries.find(session, named(host)).id)


def hosts_announced_by(harness: ConductorHarness, work: Any) -> list[str]:
    """The hosts whose nodes are in the feed after `work`, and were not before."""
    query = select(models.HostChange.seq, models.ComputeNode.host)
    query = query.join(models.ComputeNode, models.ComputeNode.id == models.HostChange.node_id)
    with harness.db.read() as session:
        before = {row[0] for row in session.execute(query)}
    work()
    with harness.db.read() as session:
        assert not session.scalars(select(models.HostChange).where(models.HostChange.node_id == 0)).all()
        return sorted({row[1] for row in session.execute(query) if row[0] not in before})


class AggregateCases:
    def test_an_aggregate_is_made_changed_and_removed(self, harness: ConductorHarness) -> None:
        new_aggregate = aggregate(harness, "fast", "b", "a", disk="ssd", cpu="new")
        assert (new_aggregate.name, new_aggregate.metadata, new_aggregate.hosts, new_aggregate.zone) == (
            "fast",
            {"disk": "ssd", "cpu": "new"},
            ("a", "b"),
            None,
        )
        changed = update(harness, new_aggregate, "faster", disk=None, net="10G")
        assert (changed.name, changed.metadata, changed.hosts) == ("faster", {"cpu": "new", "net": "10G"}, ("a", "b"))
        with pytest.raises(errors.BadRequest, match=r"Cannot remove aggregate \d+: it is not empty, and has a, b"):
            harness.conductor.delete_aggregate(CTX, aggregate_id=new_aggregate.id)
        for host in "ab":
            left = harness.conductor.remove_host_from_aggregate(CTX, aggregate_id=new_aggregate.id, host=host)
        assert left.hosts == ()
        harness.conductor.delete_aggregate(CTX, aggregate_id=new_aggregate.id)
        assert harness.count(models.Aggregate) == 0

    def test_the_hosts_concerned_and_no_others_are_in_the_feed(self, harness: ConductorHarness) -> None:
        new_aggregate = aggregate(harness)
        ask = harness.conductor
        assert hosts_announced_by(
            harness, lambda: ask.add_host_to_aggregate(CTX, aggregate_id=new_aggregate.id, host="a")
        ) == ["a"]
        assert hosts_announced_by(
            harness, lambda: ask.add_host_to_aggregate(CTX, aggregate_id=new_aggregate.id, host="b")
        ) == ["b"]
        assert hosts_announced_by(harness, lambda: update(harness, new_aggregate, disk="ssd")) == ["a", "b"]
        assert hosts_announced_by(
            harness, lambda: ask.remove_host_from_aggregate(CTX, aggregate_id=new_aggregate.id, host="a")
        ) == ["a"]
        assert hosts_announced_by(harness, lambda: update(harness, new_aggregate, "other")) == ["b"]

    def test_aggregates_are_mirrored_to_the_providers(self, harness: ConductorHarness) -> None:
        new_aggregate, two = aggregate(harness, "one", "a"), aggregate(harness, "two", "a", "b")
        assert aggregates_in_placement(harness, "a") == sorted([new_aggregate.uuid, two.uuid])
        harness.conductor.remove_host_from_aggregate(CTX, aggregate_id=two.id, host="a")
        assert (aggregates_in_placement(harness, "a"), aggregates_in_placement(harness, "b")) == (
            [new_aggregate.uuid],
            [two.uuid],
        )

    def test_a_node_that_comes_later_is_in_the_aggregates_of_its_host(self, harness: ConductorHarness) -> None:
        new_aggregate = aggregate(harness, "one", "a")
        harness.conductor.delete_compute_nodes(CTX, host="a", nodes=("a-node",))
        harness.audit("a")
        assert aggregates_in_placement(harness, "a") == [new_aggregate.uuid]

    def test_names_are_unique(self, harness: ConductorHarness) -> None:
        aggregate(harness, "one")
        two = aggregate(harness, "two")
        with pytest.raises(errors.Conflict, match="Aggregate one already exists"):
            aggregate(harness, "one")
        with pytest.raises(errors.Conflict, match="Aggregate one already exists"):
            update(harness, two, "one")


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
    def test_an_aggregate_that_is_not_there(
        self, harness: ConductorHarness, method: str, arguments: dict[str, Any]
    ) -> None:
        with pytest.raises(errors.NotFound, match="Aggregate 99 could not be found"):
            getattr(harness.conductor, method)(CTX, aggregate_id=99, **arguments)

    def test_hosts_that_are_unknown_in_already_or_not_in(self, harness: ConductorHarness) -> None:
        new_aggregate = aggregate(harness, "one", "a")
        add, remove = harness.conductor.add_host_to_aggregate, harness.conductor.remove_host_from_aggregate
        with pytest.raises(errors.NotFound, match="Compute host nobody could not be found"):
            add(CTX, aggregate_id=new_aggregate.id, host="nobody")
        with pytest.raises(errors.Conflict, match=r"Aggregate \d+ already has host a"):
            add(CTX, aggregate_id=new_aggregate.id, host="a")
        with pytest.raises(errors.NotFound, match=r"Cannot remove host b from aggregate \d+"):
            remove(CTX, aggregate_id=new_aggregate.id, host="b")

    def test_a_host_is_in_one_zone_only(self, harness: ConductorHarness) -> None:
        aggregate(harness, "one", "a", availability_zone="north")
        two = aggregate(harness, "two", availability_zone="south")
        with pytest.raises(errors.Conflict, match="the host is already in availability zone north"):
            harness.conductor.add_host_to_aggregate(CTX, aggregate_id=two.id, host="a")
        aggregate(harness, "three", "a", availability_zone="north")
        aggregate(harness, "four", "a")

    def test_a_zone_cannot_change_into_another_than_its_hosts_are_in(self, harness: ConductorHarness) -> None:
        aggregate(harness, "one", "a", availability_zone="north")
        two = aggregate(harness, "two", "a", "b")
        with pytest.raises(errors.BadRequest, match="already in availability zone north"):
            update(harness, two, availability_zone="south")
        assert update(harness, two, availability_zone="north").zone == "north"

    def test_a_zone_with_instances_stays(self, harness: ConductorHarness) -> None:
        new_aggregate = aggregate(harness, "one", "a", availability_zone="north")
        harness.active("a")
        with pytest.raises(errors.BadRequest, match="there are instances on its hosts"):
            update(harness, new_aggregate, availability_zone="south")
        assert update(harness, new_aggregate, "renamed", availability_zone="north", disk="ssd").name == "renamed"
        with pytest.raises(errors.Conflict, match=r"host a has 1 instance, .* from north to the default one"):
            harness.conductor.remove_host_from_aggregate(CTX, aggregate_id=new_aggregate.id, host="a")

    def test_a_host_with_instances_comes_into_no_zone(self, harness: ConductorHarness) -> None:
        harness.active("a")
        new_aggregate = aggregate(harness, "one", availability_zone="north")
        with pytest.raises(errors.Conflict, match="from the default one to north"):
            harness.conductor.add_host_to_aggregate(CTX, aggregate_id=new_aggregate.id, host="a")
        aggregate(harness, "two", "a", disk="ssd")

    @pytest.mark.parametrize("value", [None, ""])
    def test_a_zone_is_not_taken_away(self, harness: ConductorHarness, value: str | None) -> None:
        new_aggregate = aggregate(harness, "one", availability_zone="north")
        with pytest.raises(errors.BadRequest, match="cannot be taken away or be empty"):
            update(harness, new_aggregate, availability_zone=value)
        assert update(harness, new_aggregate, availability_zone="south").zone == "south"


class DemandCases:
    """What flavor and image ask of hosts beyond the size."""

    def test_cells_and_devices_are_in_the_request_and_the_cells_in_the_instance(
        self, harness: ConductorHarness
    ) -> None:
        alias = '{"name": "qat", "vendor_id": "8086", "product_id": "0443"}'
        harness.settings.set_override("alias", [alias], group="pci")
        body = {"hw:numa_nodes": "2", "hw:cpu_policy": "dedicated", "pci_passthrough:alias": "qat:2"}
        flavor = msgspec.structs.replace(FLAVOR, vcpus=2, extra_specs=body)
        (uuid,) = harness.create(flavor=flavor)
        spec = harness.scheduler.specs[-1]
        assert spec.numa_topology is not None
        assert [(cell.pcpuset, cell.memory) for cell in spec.numa_topology.cells] == [
            (frozenset({0}), 256),
            (frozenset({1}), 256),
        ]
        (device,) = spec.pci_requests
        assert (device.alias_name, device.count) == ("qat", 2)
        assert device.request_id is not None
        stored = harness.instance(uuid).numa_topology
        assert msgspec.convert(stored, InstanceNUMATopology) == spec.numa_topology
        assert harness.hosts["a"].builds[0].request_spec.pci_requests == spec.pci_requests

    @pytest.mark.parametrize(
        ("asked", "words"),
        [
            ({"hw:numa_nodes": "0"}, "not a number above 0"),
            ({"hw:mem_page_size": "huge"}, "neither small, large"),
            ({"pci_passthrough:alias": "qat:1"}, "alias does not define 'qat'"),
        ],
    )
    def test_what_cannot_be_asked_for_makes_nothing(
        self, harness: ConductorHarness, asked: dict[str, str], words: str
    ) -> None:
        with pytest.raises(errors.BadRequest, match=words):
            harness.create(flavor=msgspec.structs.replace(FLAVOR, extra_specs=asked))
        assert harness.count(models.Instance) == harness.count(models.Task) == 0

    def test_an_alias_that_cannot_be_stops_a_conductor_at_its_start(self, harness: ConductorHarness) -> None:
        harness.options["pci__alias"] = ['{"name": "qat", "colour": "red"}']
        with pytest.raises(errors.InvalidConfiguration, match=r"\[pci\] alias .*colour"):
            harness.start("two")

    def test_extra_specs_of_a_flavor(self, harness: ConductorHarness) -> None:
        update = harness.conductor.update_flavor_extra_specs
        harness.conductor.create_flavor(CTX, flavor=FLAVOR)
        assert update(CTX, flavorid="1", extra_specs={"a": "1", "b": "2"}).extra_specs == {"a": "1", "b": "2"}
        assert update(CTX, flavorid="1", extra_specs={"a": None, "b": "3"}).extra_specs == {"b": "3"}
        with pytest.raises(errors.NotFound, match="has no extra specs with key a"):
            update(CTX, flavorid="1", extra_specs={"a": None, "b": "4"})
        with pytest.raises(errors.NotFound, match="Flavor 9 could not be found"):
            update(CTX, flavorid="9", extra_specs={})
        with harness.db.read() as session:
            assert session.scalars(select(models.Flavor)).one().value.extra_specs == {"b": "3"}


class Groups:
    """What cases of groups share."""

    def group(self, harness: ConductorHarness, policy: str = "anti-affinity", **more: Any) -> InstanceGroup:
        harness.settings.set_override("enabled_filters", EVERY_FILTER, group="filter_scheduler")
        return harness.conductor.create_server_group(CTX, name="g", policy=policy, **more)

    def asked(self, harness: ConductorHarness) -> InstanceGroup:
        group = harness.scheduler.specs[-1].instance_group
        assert group is not None
        return group


class GroupCases(Groups):
    @pytest.mark.parametrize("policy", ["affinity", "soft-anti-affinity"])
    def test_policy_members_and_hosts_are_in_the_request(self, harness: ConductorHarness, policy: str) -> None:
        group = self.group(harness, policy)
        hint = {"group": group.uuid}
        (first,) = harness.create(scheduler_hints=hint)
        assert self.asked(harness) == _with(group, (first,))
        harness.build("a", first)
        harness.scheduler.order = ["b"] if policy.endswith("anti-affinity") else ["a"]
        (second,) = harness.create(scheduler_hints=hint)
        assert self.asked(harness) == _with(group, (first, second), "a")
        harness.build(harness.scheduler.order[0], second)
        harness.delete(first)
        harness.conductor.instance_deleted(CTX, instance_uuid=first, host="a")
        harness.create(scheduler_hints=hint)
        assert first not in self.asked(harness).members
        assert self.asked(harness).hosts == (harness.scheduler.order[0],)

    def test_a_host_counts_as_soon_as_something_is_claimed_there(self, harness: ConductorHarness) -> None:
        group = self.group(harness)
        harness.create(scheduler_hints={"group": [group.uuid]})
        harness.scheduler.order = ["b"]
        harness.create(scheduler_hints={"group": group.uuid})
        assert self.asked(harness).hosts == ("a",)

    def test_it_is_read_again_for_each_asking(self, harness: ConductorHarness) -> None:
        group = self.group(harness, max_server_per_host=2)
        harness.scheduler.mood = errors.ServiceUnavailable("No answer in time")
        (first,) = harness.create(scheduler_hints={"group": group.uuid})
        harness.scheduler.mood = None
        harness.scheduler.order = ["b"]
        (second,) = harness.create(scheduler_hints={"group": group.uuid})
        harness.build("b", second)
        harness.tick(harness.conductor, 10.0)
        assert harness.scheduler.asked[-1][0] == (first,)
        assert self.asked(harness) == _with(group, (first, second), "b")
        assert self.asked(harness).max_server_per_host == 2

    def test_an_alternate_that_the_policy_forbids_is_passed_over(self, harness: ConductorHarness) -> None:
        group = self.group(harness)
        harness.scheduler.order = ["b"]
        (first,) = harness.create(scheduler_hints={"group": group.uuid})
        harness.scheduler.order = ["a", "b", "c"]
        (second,) = harness.create(scheduler_hints={"group": group.uuid})
        harness.fail("a", second)
        assert harness.allocated() == {first: "b", second: "c"}

    def test_a_group_that_is_not_there_makes_nothing(self, harness: ConductorHarness) -> None:
        with pytest.raises(errors.BadRequest, match=f"Server group {named('g')} could not be found"):
            harness.create(scheduler_hints={"group": named("g")})
        assert harness.count(models.Instance) == harness.count(models.Task) == 0
        with pytest.raises(errors.NotFound, match="could not be found"):
            harness.conductor.delete_server_group(CTX, group_uuid=named("g"))

    def test_a_group_that_goes_lets_its_servers_go_on(self, harness: ConductorHarness) -> None:
        group = self.group(harness)
        harness.scheduler.mood = errors.ServiceUnavailable("No answer in time")
        (uuid,) = harness.create(scheduler_hints={"group": group.uuid})
        harness.scheduler.mood = None
        harness.conductor.delete_server_group(CTX, group_uuid=group.uuid)
        harness.tick(harness.conductor, 10.0)
        assert harness.scheduler.specs[-1].instance_group is None
        assert harness.allocated() == {uuid: "a"}

    def test_members_go_with_the_purge(self, harness: ConductorHarness) -> None:
        group = self.group(harness)
        harness.scheduler.order = []
        (uuid,) = harness.create(scheduler_hints={"group": group.uuid})
        harness.delete(uuid)
        assert harness.count(models.InstanceGroupMember) == 1
        harness.tick(harness.conductor, 10.0**8)
        assert harness.count(models.InstanceGroupMember) == 0


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
    def test_a_policy_that_nothing_serves_is_an_error(
        self, harness: ConductorHarness, policy: str, missing: str
    ) -> None:
        group = self.group(harness, policy)
        for option in ("enabled_filters", "weight_classes"):
            harness.settings.set_override(option, ["RamFilter"], group="filter_scheduler")
        (uuid,) = harness.create(scheduler_hints={"group": group.uuid})
        assert harness.state(uuid) == "error/None on None"
        assert harness.fault(uuid).startswith(
            f"UnsupportedPolicyException: Scheduling failed: Server group policy {policy}"
        )
        assert missing in harness.fault(uuid)
        assert harness.scheduler.specs == []

    def test_it_belongs_to_who_made_it(self, harness: ConductorHarness) -> None:
        bob = RequestContext(request_id="req-2", user_id="bob", project_id="other")
        group = harness.conductor.create_server_group(bob, name="g", policy="affinity")
        assert (group.user_id, group.project_id) == ("bob", "other")

    @pytest.mark.parametrize(
        ("policy", "most", "message"),
        [
            ("legacy", None, "'legacy' is none of affinity,"),
            ("affinity", 2, "Only the policy anti-affinity supports rules"),
        ],
    )
    def test_groups_that_cannot_be(
        self, harness: ConductorHarness, policy: str, most: int | None, message: str
    ) -> None:
        with pytest.raises(errors.BadRequest, match=message):
            harness.conductor.create_server_group(CTX, name="g", policy=policy, max_server_per_host=most)


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
