"""A request that the broker delivers again after its answer, and after a later request, changes nothing.

Each case is a request, the later one that undoes or replaces its work, and the comparison of all tables before the late delivery and
after it.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import oslo_messaging
import pytest
from sqlalchemy import select

from minova import errors
from minova.cmd.conductor import implementation
from minova.contracts.base import Role, methods_of
from minova.contracts.conductor import ConductorApi
from minova.contracts.once import ONCE
from minova.db import models
from minova.db.networks import ports
from minova.messaging import rpc
from minova.messaging.dispatch import Endpoint
from minova.objects.actions.power import STOP
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.instance_group import AFFINITY
from minova.objects.catalogue.key_pair import KeyPair
from minova.objects.network.address_groups import AddressGroup
from minova.objects.network.network import (
    AllocationPool,
    Network,
    NewPort,
    Port,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
)
from minova.objects.network.subnet_pools import SubnetPool
from minova.objects.servers.server_changes import ServerChanges
from tests.functional.conductor.conductor_harness import CTX, IMAGE, ConductorHarness, request
from tests.tables import make_tables

P = CTX.project_id
SMALL = Flavor(flavorid="small", name="small", vcpus=1, memory_mb=64, root_gb=1)
KEY = KeyPair(name="key", user_id="u", public_key="ssh-ed25519 AAAA me")


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


NETWORK = Network(id=uuid(1), name="blue", project_id=P)
SUBNET = Subnet(
    id=uuid(2),
    network_id=uuid(1),
    project_id=P,
    ip_version=4,
    cidr="10.0.0.0/24",
    gateway_ip="10.0.0.1",
    allocation_pools=(AllocationPool(start="10.0.0.2", end="10.0.0.9"),),
)
GROUP = SecurityGroup(id=uuid(3), name="web", project_id=P)
RULE = SecurityGroupRule(id=uuid(4), security_group_id=uuid(3), project_id=P, direction="ingress", protocol="tcp")
OFFICE = AddressGroup(id=uuid(6), project_id=P, addresses=("10.0.0.0/16",))
POOL = SubnetPool(
    id=uuid(7),
    project_id=P,
    prefixes=("10.0.0.0/8",),
    ip_version=4,
    default_prefixlen=24,
    min_prefixlen=8,
    max_prefixlen=32,
)
PORT = Port(id=uuid(5), network_id=uuid(1), project_id=P, security_groups=())


# The API's other calls: why a second delivery of each does no harm.
HARMLESS = {
    "api_has_seen": "marks only grow",
    "cache_images": "a host fetches what it lacks",
    "cancel_move": "names the migration, which is cancelled once",
    "capacity": "reads",
    "change_image": "names the record that it replaces",
    "create_console_token": "a token that got no answer is unknown to all, and expires",
    "create_image": "the id of an image is used once, also after its deletion",
    "create_servers": "the request's id is used once",
    "delete_address_group": "names a UUID",
    "delete_image": "names a UUID",
    "delete_network": "names a UUID",
    "delete_port": "names a UUID",
    "delete_security_group": "names a UUID",
    "delete_security_group_rule": "names a UUID",
    "delete_server": "names a UUID; of a server that can be restored, the request's id is used once",
    "delete_server_group": "names a UUID",
    "delete_service": "names a UUID",
    "delete_subnet": "names a UUID",
    "delete_subnet_pool": "names a UUID",
    "ensure_default_security_group": "makes what is missing",
    "evacuate_server": "the request's id is used once",
    "expect_port": "what is expected in vain expires",
    "force_complete_migration": "names the migration",
    "network_changed": "reads the interfaces anew",
    "preview_evacuation": "reads",
    "preview_move": "reads",
    "preview_servers": "reads",
    "report_images": "the next report replaces it",
    "start_action": "the request's id is used once",
    "update_image": "names the status that it replaces",
}


class Bus:
    """Delivers each message at once, and the last one again when it is told."""

    def __init__(self, *managers: Any) -> None:
        self._endpoints = [Endpoint(implementation(manager), ConductorApi) for manager in managers]
        self._last: tuple[Any, str, Any] | None = None

    def prepare(self, **options: Any) -> "Bus":
        return self

    def call(self, ctx: Any, method: str, **arguments: Any) -> Any:
        self._last = ctx, method, json.loads(json.dumps(msgspec.to_builtins(arguments)))
        return self._deliver(self._endpoints[0], *self._last)

    def deliver(self, message: tuple[Any, str, Any]) -> None:
        """To another conductor. Nobody waits for the answer."""
        try:
            self._deliver(self._endpoints[-1], *message)
        except errors.MinovaError:
            return

    def last(self) -> tuple[Any, str, Any]:
        assert self._last is not None
        return self._last

    def _deliver(self, endpoint: Any, ctx: Any, method: str, sent: Any) -> Any:
        try:
            return json.loads(json.dumps(msgspec.to_builtins(getattr(endpoint, method)(ctx, **sent))))
        except oslo_messaging.ExpectedException as expected:
            raise expected.exc_info[1] from None


class World:
    def __init__(self, url: str) -> None:
        make_tables(url)
        self.harness = ConductorHarness(url)
        other = self.harness.start("two")
        self.bus = Bus(self.harness.conductor, other)
        self.api: Any = rpc.Proxy(self.bus, ConductorApi)
        self.server = self.harness.active()

    def ask(self, name: str, /, **arguments: Any) -> Any:
        answer = getattr(self.api, name)(CTX, **arguments)
        self.harness.settle()
        return answer

    def rows(self) -> dict[str, list[Any]]:
        """All that is stored. `executed_messages` and the number of the last change may grow."""
        with self.harness.db.read() as session:
            return {
                table.name: sorted(map(repr, session.execute(select(table)).all()))
                for table in models.Base.metadata.sorted_tables
                if table.name not in {"executed_messages", "change_counters"}
            }

    def service(self) -> str:
        with self.harness.db.read() as session:
            return str(
                session.scalars(select(models.Service.uuid).where(models.Service.binary == "minova-compute")).first()
            )


def change(**values: Any) -> dict[str, Any]:
    return {"changes": ServerChanges(**values)}


# (what is there before, the request, what comes after it); each a list of calls with arguments, of which some are made in the world.
Calls = list[tuple[str, Callable[[World], dict[str, Any]]]]
Case = tuple[Calls, Calls]


def call(name: str, /, **arguments: Any) -> tuple[str, Callable[[World], dict[str, Any]]]:
    return name, lambda world: arguments


def of_server(name: str, /, **arguments: Any) -> tuple[str, Callable[[World], dict[str, Any]]]:
    return name, lambda world: {"instance_uuid": world.server, **arguments}


def of_service(**arguments: Any) -> tuple[str, Callable[[World], dict[str, Any]]]:
    return "update_service", lambda world: {"service_uuid": world.service(), **arguments}


FLAVOR_MADE = [call("create_flavor", flavor=SMALL)]
AGGREGATE = [call("create_aggregate", name="one", metadata={})]
NET = [call("create_networks", networks=(NETWORK,))]
NET_AND_SUBNET = [*NET, call("create_subnets", subnets=(SUBNET,))]
WEB = [call("create_security_groups", groups=(GROUP,))]
OFFICES = [call("create_address_groups", address_groups=(OFFICE,))]
POOLS = [call("create_subnet_pools", pools=(POOL,))]
KEYS = [call("create_key_pair", key_pair=KEY)]
OF_FLAVOR, OF_AGGREGATE = {"flavorid": "small"}, {"aggregate_id": 1}
MEMBER = {"image_id": IMAGE.id, "member_id": "friend"}
SHARED = [call("create_image", image=msgspec.structs.replace(IMAGE, visibility="shared", owner=P))]

# The request is the last call of the first list; the second list comes after it.
CASES: list[Case] = [
    (
        [of_server("update_server", **change(name="a"))],
        [of_server("update_server", **change(name="b"))],
    ),
    ([of_server("update_server", **change(add_tag="a"))], [of_server("update_server", **change(remove_tag="a"))]),
    ([of_server("reset_server_state", vm_state="error")], [of_server("reset_server_state", vm_state="active")]),
    ([of_server("clear_server_password")], []),
    ([of_server("start_action", action=STOP.kind)], []),
    ([of_server("delete_server")], []),
    ([call("create_servers", request=request(request_uuid=uuid(9), body_hash="x"))], []),
    (FLAVOR_MADE, [call("delete_flavor", **OF_FLAVOR)]),
    ([*FLAVOR_MADE, call("delete_flavor", **OF_FLAVOR)], FLAVOR_MADE),
    (
        [*FLAVOR_MADE, call("update_flavor", **OF_FLAVOR, description="a")],
        [call("update_flavor", **OF_FLAVOR, description="b")],
    ),
    (
        [*FLAVOR_MADE, call("add_flavor_access", **OF_FLAVOR, project_id="p")],
        [call("remove_flavor_access", **OF_FLAVOR, project_id="p")],
    ),
    (
        [
            *FLAVOR_MADE,
            call("add_flavor_access", **OF_FLAVOR, project_id="p"),
            call("remove_flavor_access", **OF_FLAVOR, project_id="p"),
        ],
        [call("add_flavor_access", **OF_FLAVOR, project_id="p")],
    ),
    (
        [*FLAVOR_MADE, call("update_flavor_extra_specs", **OF_FLAVOR, extra_specs={"a": "1"})],
        [call("update_flavor_extra_specs", **OF_FLAVOR, extra_specs={"a": "2"})],
    ),
    (AGGREGATE, [call("delete_aggregate", **OF_AGGREGATE)]),
    ([*AGGREGATE, call("delete_aggregate", **OF_AGGREGATE)], [call("create_aggregate", name="two", metadata={})]),
    (
        [*AGGREGATE, call("update_aggregate", **OF_AGGREGATE, name="a", metadata={})],
        [call("update_aggregate", **OF_AGGREGATE, name="b", metadata={})],
    ),
    (
        [*AGGREGATE, call("add_host_to_aggregate", **OF_AGGREGATE, host="a")],
        [call("remove_host_from_aggregate", **OF_AGGREGATE, host="a")],
    ),
    (
        [
            *AGGREGATE,
            call("add_host_to_aggregate", **OF_AGGREGATE, host="a"),
            call("remove_host_from_aggregate", **OF_AGGREGATE, host="a"),
        ],
        [call("add_host_to_aggregate", **OF_AGGREGATE, host="a")],
    ),
    ([call("create_server_group", name="g", policy=AFFINITY)], []),
    (KEYS, [call("delete_key_pair", user_id="u", name="key")]),
    ([*KEYS, call("delete_key_pair", user_id="u", name="key")], KEYS),
    (
        [call("update_quota_set", project_id=P, limits={"cores": 50}, force=True)],
        [call("update_quota_set", project_id=P, limits={"cores": 60}, force=True)],
    ),
    (
        [call("delete_quota_set", project_id=P, resources=("cores",))],
        [call("update_quota_set", project_id=P, limits={"cores": 60}, force=True)],
    ),
    (
        [call("update_quota_class_set", class_name="default", limits={"cores": 50})],
        [call("update_quota_class_set", class_name="default", limits={"cores": 60})],
    ),
    (NET, [call("delete_network", network_id=NETWORK.id)]),
    (
        [*NET, call("update_network", network=msgspec.structs.replace(NETWORK, name="a"))],
        [call("update_network", network=msgspec.structs.replace(NETWORK, name="b", revision_number=2))],
    ),
    (NET_AND_SUBNET, [call("delete_subnet", subnet_id=SUBNET.id)]),
    (
        [*NET_AND_SUBNET, call("update_subnet", subnet=msgspec.structs.replace(SUBNET, name="a"))],
        [call("update_subnet", subnet=msgspec.structs.replace(SUBNET, name="b", revision_number=2))],
    ),
    (
        [
            *NET_AND_SUBNET,
            call("create_port", port=PORT, fixed_ips=None),
            call("update_port", port=msgspec.structs.replace(PORT, name="a"), fixed_ips=None),
        ],
        [call("update_port", port=msgspec.structs.replace(PORT, name="b", revision_number=2), fixed_ips=None)],
    ),
    (
        [*NET_AND_SUBNET, call("create_port", port=PORT, fixed_ips=None)],
        [call("delete_port", port_id=PORT.id)],
    ),
    (
        [*NET_AND_SUBNET, call("create_ports", ports=(NewPort(port=PORT),))],
        [call("delete_port", port_id=PORT.id)],
    ),
    (
        [*WEB, call("update_network_tags", kind="security_group", resource_id=GROUP.id, add=("a",))],
        [call("update_network_tags", kind="security_group", resource_id=GROUP.id, remove=("a",))],
    ),
    (WEB, [call("delete_security_group", group_id=GROUP.id)]),
    (OFFICES, [call("delete_address_group", group_id=OFFICE.id)]),
    (
        [*OFFICES, call("update_address_group", address_group=msgspec.structs.replace(OFFICE, name="a"))],
        [call("update_address_group", address_group=msgspec.structs.replace(OFFICE, name="b", revision_number=2))],
    ),
    (
        [*OFFICES, call("change_addresses", group_id=OFFICE.id, add=("10.1.0.0/16",))],
        [call("change_addresses", group_id=OFFICE.id, remove=("10.1.0.0/16",))],
    ),
    (POOLS, [call("delete_subnet_pool", pool_id=POOL.id)]),
    (
        [*POOLS, call("update_subnet_pool", pool=msgspec.structs.replace(POOL, name="a"))],
        [call("update_subnet_pool", pool=msgspec.structs.replace(POOL, name="b", revision_number=2))],
    ),
    (
        [*WEB, call("update_security_group", group=msgspec.structs.replace(GROUP, name="a"))],
        [call("update_security_group", group=msgspec.structs.replace(GROUP, name="b", revision_number=2))],
    ),
    ([*WEB, call("create_security_group_rules", rules=(RULE,))], [call("delete_security_group_rule", rule_id=RULE.id)]),
    ([*SHARED, call("add_image_member", **MEMBER)], [call("remove_image_member", **MEMBER)]),
    (
        [*SHARED, call("add_image_member", **MEMBER), call("update_image_member", **MEMBER, status="accepted")],
        [call("update_image_member", **MEMBER, status="rejected")],
    ),
    (
        [*SHARED, call("add_image_member", **MEMBER), call("remove_image_member", **MEMBER)],
        [call("add_image_member", **MEMBER)],
    ),
    ([of_service(disabled=True, disabled_reason="a")], [of_service(disabled=False)]),
]


@pytest.fixture
def world(tmp_path: Path) -> Any:
    world = World(f"sqlite:///{tmp_path}/minova.sqlite")
    yield world
    world.harness.close()


@pytest.mark.parametrize(
    ("before", "after"), CASES, ids=[f"{number}-{case[0][-1][0]}" for number, case in enumerate(CASES)]
)
def test_a_late_delivery_changes_nothing(world: World, before: Calls, after: Calls) -> None:
    for name, arguments in before:
        world.ask(name, **arguments(world))
    message = world.bus.last()
    for name, arguments in after:
        world.ask(name, **arguments(world))
    expected = world.rows()
    world.bus.deliver(message)
    world.harness.settle()
    rows_by_table = world.rows()
    assert {name: rows for name, rows in rows_by_table.items() if rows != expected[name]} == {}


def test_a_request_that_was_refused_is_not_executed_when_it_comes_again(world: World) -> None:
    world.ask("update_server", instance_uuid=world.server, changes=ServerChanges(lock=True))
    with pytest.raises(errors.Conflict):
        world.ask("update_server", instance_uuid=world.server, changes=ServerChanges(name="a"))
    message = world.bus.last()
    world.ask("update_server", instance_uuid=world.server, changes=ServerChanges(lock=False), override_lock=True)
    expected = world.rows()
    world.bus.deliver(message)
    assert world.rows() == expected


def test_bug_port_that_lost_the_race_for_its_mac_is_made_by_a_late_delivery(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    mac = "fa:16:3e:00:00:01"
    for name, arguments in NET_AND_SUBNET:
        world.ask(name, **arguments(world))
    world.ask("create_port", port=msgspec.structs.replace(PORT, mac_address=mac), fixed_ips=None)
    among, looks = ports.macs_among, []

    def look(*arguments: Any) -> set[str]:
        looks.append(arguments)
        return set() if len(looks) == 1 else among(*arguments)  # the other port is not there yet

    monkeypatch.setattr(ports, "macs_among", look)
    late = msgspec.structs.replace(PORT, id=uuid(6), mac_address=mac)
    with pytest.raises(errors.MacAddressInUse):
        world.ask("create_port", port=late, fixed_ips=None)
    message = world.bus.last()
    world.ask("delete_port", port_id=PORT.id)
    expected = world.rows()
    world.bus.deliver(message)
    assert world.rows() == expected


def test_each_call_that_is_executed_once_is_tried() -> None:
    tried = {before[-1][0] for before, _ in CASES}
    assert sorted(ONCE - tried) == []
    assert sorted(ONCE - methods_of(ConductorApi).keys()) == []


def test_each_call_of_the_api_is_executed_once_or_harmless() -> None:
    of_api = {name for name, method in methods_of(ConductorApi).items() if Role.API in method.audience.roles}
    assert of_api == ONCE | HARMLESS.keys()
