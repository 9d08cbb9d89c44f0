"""Security groups and addresses of servers whose ports are in Neutron, as Nova answers."""

from typing import Any

import pytest

from minova import errors
from tests.fakes.neutron import FakeNeutron
from tests.functional.api.compute.servers.actions.test_interfaces import NET, Json, attach, running, text
from tests.functional.api.compute.servers.conftest import work_with
from tests.functional.api.conftest import Cloud, at

OTHER_NET = "33333333-0000-4000-8000-000000000000"
WEB, DB, TWIN, TWIN_2, FOREIGN = (f"55555555-0000-4000-8000-00000000000{number}" for number in range(5))


def group(uuid: str, name: str, project: str = "admin", *rules: Json) -> Json:
    return {"id": uuid, "name": name, "description": "", "tenant_id": project, "security_group_rules": list(rules)}


@pytest.fixture
def server(stocked: Cloud, neutron: FakeNeutron) -> Json:
    """With two ports, each in the group web."""
    neutron.groups = [
        group(WEB, "web"),
        group(DB, "db"),
        group(TWIN, "twin"),
        group(TWIN_2, "twin"),
        group(FOREIGN, "foreign", "other"),
    ]
    server_path = running(stocked)
    for net in (NET, OTHER_NET):
        assert attach(stocked, server_path, net_id=net)[0] == 200
    for port in neutron.books.values():
        port["security_groups"] = [WEB]
    neutron.requests = 0
    neutron.lists.clear()
    stocked.conductor.network_changes.clear()
    return server_path


def act(cloud: Cloud, server: Json, action: str, **arguments: Any) -> tuple[int, Any]:
    return cloud.ask("POST", f"/v2.1/servers/{server['id']}/action", {action: arguments})


def groups_of(neutron: FakeNeutron) -> list[list[str]]:
    return [port["security_groups"] for port in neutron.books.values()]


def addresses_of(neutron: FakeNeutron) -> list[list[str]]:
    return [[fixed["ip_address"] for fixed in port["fixed_ips"]] for port in neutron.books.values()]


# -- what is shown -------------------------------------------------------------------------------------------------------


def test_groups_are_shown_by_their_names(stocked: Cloud, neutron: FakeNeutron, server: Json) -> None:
    first, _ = neutron.books.values()
    first["security_groups"] = [WEB, DB]
    names = [{"name": "db"}, {"name": "web"}]
    path = f"/v2.1/servers/{server['id']}"
    assert stocked.get(path)["server"]["security_groups"] == names
    assert stocked.get("/v2.1/servers/detail")["servers"][0]["security_groups"] == names
    status, answer = stocked.ask("PUT", path, {"server": {"name": "new"}}, **at("2.75"))
    assert (status, answer["server"]["security_groups"]) == (200, names)
    neutron.lists.clear()
    status, answer = stocked.ask("PUT", path, {"server": {"name": "new"}}, **at("2.74"))
    assert (status, "security_groups" in answer["server"], neutron.lists) == (200, False, [])


def test_a_list_asks_once_for_all_servers(stocked: Cloud, neutron: FakeNeutron, server: Json) -> None:
    for _ in range(3):
        assert attach(stocked, running(stocked), net_id=NET)[0] == 200
    stocked.make_server(networks="none", **at("2.37"))
    for port in neutron.books.values():
        port["security_groups"] = [WEB]
    neutron.lists.clear()
    shown = stocked.get("/v2.1/servers/detail")["servers"]
    assert [server_view.get("security_groups") for server_view in shown] == [None, *[[{"name": "web"}]] * 4]
    assert [kind for kind, _ in neutron.lists] == ["ports", "security_groups"]


def test_servers_without_ports_ask_no_service(stocked: Cloud, neutron: FakeNeutron) -> None:
    running(stocked)
    assert len(stocked.get("/v2.1/servers/detail")["servers"]) == 1
    assert neutron.lists == []


def test_a_group_that_the_caller_does_not_see_is_not_shown(stocked: Cloud, neutron: FakeNeutron, server: Json) -> None:
    first, _ = neutron.books.values()
    first["security_groups"] = [WEB, "77777777-0000-4000-8000-000000000000"]
    assert stocked.get(f"/v2.1/servers/{server['id']}")["server"]["security_groups"] == [{"name": "web"}]


def test_a_neutron_that_is_away_hides_no_server(stocked: Cloud, neutron: FakeNeutron, server: Json) -> None:
    def away() -> None:
        raise errors.ServiceUnavailable("away")

    neutron.during["GET", ""] = away
    assert "security_groups" not in stocked.get(f"/v2.1/servers/{server['id']}")["server"]
    assert len(stocked.get("/v2.1/servers/detail")["servers"]) == 1
    assert stocked.ask("GET", f"/v2.1/servers/{server['id']}/os-security-groups")[0] == 503


def test_a_neutron_that_hangs_holds_up_one_answer_in_a_while(
    stocked: Cloud, neutron: FakeNeutron, server: Json
) -> None:
    """Each one holds a thread of the API for seconds."""
    path = f"/v2.1/servers/{server['id']}"
    neutron.outage.failed("no answer within 5 s")
    before = neutron.requests
    assert "security_groups" not in stocked.get(path)["server"]
    assert neutron.requests == before
    neutron.outage.answered()
    assert "security_groups" in stocked.get(path)["server"]


def test_a_neutron_without_security_groups_hides_no_server(stocked: Cloud, neutron: FakeNeutron, server: Json) -> None:
    """`[securitygroup] enable_security_group = false`: its ports have no such field, and it has no such route."""
    for port in neutron.books.values():
        del port["security_groups"]
    path = f"/v2.1/servers/{server['id']}"
    neutron.lists.clear()
    assert "security_groups" not in stocked.get(path)["server"]
    assert len(stocked.get("/v2.1/servers/detail")["servers"]) == 1
    assert stocked.get(f"{path}/os-security-groups") == {"security_groups": []}
    assert {kind for kind, _ in neutron.lists} == {"ports"}


def test_groups_with_their_rules(stocked: Cloud, neutron: FakeNeutron, server: Json) -> None:
    common = {"security_group_id": WEB, "tenant_id": "admin", "ethertype": "IPv4"}
    free = {"protocol": None, "port_range_min": None, "port_range_max": None, "remote_group_id": None}
    rules = [
        {"id": "r1", "direction": "egress", **common, **free},
        {"id": "r2", "direction": "ingress", **common, **free, "protocol": "tcp", "remote_ip_prefix": "10.0.0.0/8"},
        {"id": "r3", "direction": "ingress", **common, **free, "remote_group_id": DB},
    ]
    neutron.groups[0] = group(WEB, "web", "admin", *rules)
    (shown,) = stocked.get(f"/v2.1/servers/{server['id']}/os-security-groups")["security_groups"]
    assert (shown["id"], shown["name"], shown["tenant_id"]) == (WEB, "web", "admin")
    own = {"parent_group_id": WEB}
    assert shown["rules"] == [
        own
        | {"id": "r2", "ip_protocol": "tcp", "from_port": 1, "to_port": 65535}
        | {"group": {}, "ip_range": {"cidr": "10.0.0.0/8"}},
        own
        | {"id": "r3", "ip_protocol": None, "from_port": None, "to_port": None}
        | {"group": {"name": "db", "tenant_id": "admin"}, "ip_range": {}},
    ]


# -- ports that are refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"binding:vnic_type": "direct"}, "has binding:vnic_type direct: SR-IOV"),
        ({"binding:vnic_type": "macvtap"}, "has binding:vnic_type macvtap"),
        (
            {"resource_request": {"request_groups": [{"resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1}}]}},
            "minimum bandwidth",
        ),
        ({"trunk_details": {"trunk_id": "t", "sub_ports": []}}, "is the parent of a trunk"),
    ],
)
def test_a_port_that_asks_for_more_than_there_is(stocked: Cloud, neutron: FakeNeutron, values: Json, said: str) -> None:
    port = neutron.create_port({"network_id": NET, "tenant_id": "admin", **values})
    networks = {"networks": [{"port": port["id"]}]}
    for answer in (
        stocked.ask("POST", "/v2.1/servers", {"server": stocked.server | networks}),
        attach(stocked, running(stocked), port_id=port["id"]),
    ):
        assert (answer[0], said in text(answer[1])) == (400, True), answer
    neutron.update_port(port["id"], {**dict.fromkeys(values), "binding:vnic_type": "normal"})
    assert attach(stocked, running(stocked), port_id=port["id"])[0] == 200


# -- security groups -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["db", DB])
def test_a_group_comes_and_goes(stocked: Cloud, neutron: FakeNeutron, server: Json, name: str) -> None:
    for _ in range(2):  # it may be there
        assert act(stocked, server, "addSecurityGroup", name=name) == (202, None)
        assert groups_of(neutron) == [[WEB, DB]] * 2
    assert act(stocked, server, "removeSecurityGroup", name=name) == (202, None)
    assert groups_of(neutron) == [[WEB]] * 2
    assert stocked.conductor.network_changes[0] == (server["id"], "h")


@pytest.mark.parametrize(
    ("action", "name", "status", "said"),
    [
        ("addSecurityGroup", "nothing", 404, "Security group nothing is not found for project admin"),
        ("removeSecurityGroup", "nothing", 404, "Security group nothing is not found for project admin"),
        ("addSecurityGroup", "foreign", 404, "is not found"),
        ("addSecurityGroup", "twin", 409, "Multiple security groups found matching 'twin'"),
        ("removeSecurityGroup", "twin", 409, "Multiple security groups found matching 'twin'"),
        ("removeSecurityGroup", "db", 404, "Security group db not associated with the instance"),
        ("addSecurityGroup", "", 400, "name"),
    ],
)
def test_what_is_wrong_is_said(
    stocked: Cloud, neutron: FakeNeutron, server: Json, action: str, name: str, status: int, said: str
) -> None:
    answer = act(stocked, server, action, name=name)
    assert (answer[0], said in text(answer[1])) == (status, True), answer
    assert groups_of(neutron) == [[WEB]] * 2


def test_a_twin_by_its_id(stocked: Cloud, neutron: FakeNeutron, server: Json) -> None:
    assert act(stocked, server, "addSecurityGroup", name=TWIN_2)[0] == 202
    assert groups_of(neutron) == [[WEB, TWIN_2]] * 2


@pytest.mark.parametrize("values", [{"port_security_enabled": False}, {"fixed_ips": []}])
def test_a_port_that_can_have_no_group(stocked: Cloud, neutron: FakeNeutron, server: Json, values: Json) -> None:
    first, _ = neutron.books.values()
    first.update(values)
    status, answer = act(stocked, server, "addSecurityGroup", name="db")
    assert (status, "port_security_enabled and subnet" in text(answer)) == (400, True)


def test_what_others_change_meanwhile_is_kept(stocked: Cloud, neutron: FakeNeutron, server: Json) -> None:
    uuid = next(iter(neutron.books))

    def other() -> None:
        del neutron.during["PUT", uuid]
        neutron.update_port(uuid, {"security_groups": [WEB, TWIN]})

    neutron.during["PUT", uuid] = other
    assert act(stocked, server, "addSecurityGroup", name="db")[0] == 202
    assert groups_of(neutron) == [[WEB, TWIN, DB], [WEB, DB]]


def test_a_port_that_always_changes_is_a_conflict(stocked: Cloud, neutron: FakeNeutron, server: Json) -> None:
    uuid = next(iter(neutron.books))
    neutron.during["PUT", uuid] = lambda: neutron.books[uuid].update(
        revision_number=neutron.books[uuid]["revision_number"] + 1
    )
    assert act(stocked, server, "addSecurityGroup", name="db")[0] == 409


def test_ports_that_others_give_the_servers_id_are_left_alone(
    stocked: Cloud, neutron: FakeNeutron, server: Json
) -> None:
    port = neutron.create_port({"network_id": NET, "device_id": server["id"]})
    assert act(stocked, server, "addSecurityGroup", name="db")[0] == 202
    assert neutron.books[port["id"]]["security_groups"] == []


# -- addresses -----------------------------------------------------------------------------------------------------------


def test_an_address_comes_and_goes(stocked: Cloud, neutron: FakeNeutron, server: Json) -> None:
    before = addresses_of(neutron)
    assert act(stocked, server, "addFixedIp", networkId=OTHER_NET) == (202, None)
    first, second = addresses_of(neutron)
    assert (first, second[:1], len(second)) == (before[0], before[1], 2)
    assert act(stocked, server, "removeFixedIp", address=second[1]) == (202, None)
    assert addresses_of(neutron) == before
    assert stocked.conductor.network_changes == [(server["id"], "h")] * 2


def test_an_address_of_the_next_subnet(stocked: Cloud, neutron: FakeNeutron, server: Json) -> None:
    neutron.subnets_of[NET] = [{"id": "full"}, {"id": "sub-2"}]
    uuid = next(iter(neutron.books))

    def full() -> None:
        del neutron.during["PUT", uuid]
        raise errors.IpAddressGenerationFailure("full")

    neutron.during["PUT", uuid] = full
    assert act(stocked, server, "addFixedIp", networkId=NET)[0] == 202
    assert [fixed["subnet_id"] for fixed in neutron.books[uuid]["fixed_ips"]] == ["sub-1", "sub-2"]


def test_addresses_that_cannot_be(stocked: Cloud, neutron: FakeNeutron, server: Json) -> None:
    status, answer = act(stocked, server, "addFixedIp", networkId="44444444-0000-4000-8000-000000000000")
    assert (status, text(answer)) == (404, f"Network could not be found for instance {server['id']}.")
    status, answer = act(stocked, server, "removeFixedIp", address="10.0.0.99")
    assert (status, text(answer)) == (400, f"Instance {server['id']} does not have fixed IP '10.0.0.99'.")

    def full() -> None:
        raise errors.IpAddressGenerationFailure("full")

    neutron.during["PUT", next(iter(neutron.books))] = full
    status, answer = act(stocked, server, "addFixedIp", networkId=NET)
    assert (status, text(answer)) == (400, f"No fixed IP addresses available for network: {NET}")


def test_an_api_without_neutron_says_so(stocked: Cloud, neutron: FakeNeutron, server: Json) -> None:
    work_with(stocked, "minova")
    for action, arguments in (
        ("addSecurityGroup", {"name": "db"}),
        ("removeSecurityGroup", {"name": "web"}),
        ("addFixedIp", {"networkId": NET}),
        ("removeFixedIp", {"address": "10.0.0.2"}),
    ):
        status, answer = act(stocked, server, action, **arguments)
        assert (status, "are in Neutron" in text(answer)) == (400, True)
    assert "security_groups" not in stocked.get(f"/v2.1/servers/{server['id']}")["server"]


def test_bug_id_of_a_group_was_refused_where_another_group_has_it_as_its_name(
    stocked: Cloud, neutron: FakeNeutron, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For new servers."""
    neutron.groups = [group(WEB, "web"), group(DB, WEB)]
    neutron_requests: list[Any] = []

    def create_servers(ctx: Any, request: Any, **more: Any) -> Any:
        neutron_requests.append(str(request))
        raise errors.ServiceUnavailable("enough")

    monkeypatch.setattr(stocked.conductor, "create_servers", create_servers)
    create = {**stocked.server, "security_groups": [{"name": WEB}]}
    assert stocked.ask("POST", "/v2.1/servers", {"server": create})[0] == 503
    (text,) = neutron_requests
    assert (WEB in text, DB in text) == (True, False)
