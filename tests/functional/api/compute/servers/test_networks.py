"""Networks of new servers, and the addresses that servers show."""

from typing import Any

import pytest

from minova.context import RequestContext
from tests.functional.api.conftest import Cloud, at
from tests.functional.api.network.test_networks import UNKNOWN, addresses, listed, network, port, subnet

Json = dict[str, Any]


def ask(cloud: Cloud, networks: Any, **more: Any) -> tuple[int, str]:
    """Status and message."""
    status, answer = cloud.ask("POST", "/v2.1/servers", {"server": {**cloud.server, "networks": networks, **more}})
    return status, "" if status == 202 else next(iter(answer.values()))["message"]


def shown(cloud: Cloud, server: Json) -> Json:
    address_map: Json = cloud.get(f"/v2.1/servers/{server['id']}")["server"]["addresses"]
    return address_map


def test_server_shows_the_addresses_of_its_networks_in_their_order(stocked: Cloud) -> None:
    blue, green = network(stocked, name="blue"), network(stocked, name="green")
    subnet(stocked, blue)
    subnet(stocked, blue, "2001:db8:1::/64")
    subnet(stocked, green, "10.2.0.0/24")
    own = port(stocked, green)
    nics = [{"port": own["id"]}, {"uuid": blue["id"]}, {"uuid": green["id"], "fixed_ip": "10.2.0.77"}]
    server = stocked.make_server(networks=nics)
    answer = shown(stocked, server)
    assert list(answer) == ["green", "blue"]
    assert [entry["addr"] for entry in answer["green"]] == ["10.2.0.2", "10.2.0.77"]
    assert [(entry["addr"], entry["version"]) for entry in answer["blue"]] == [("10.1.0.2", 4), ("2001:db8:1::2", 6)]
    assert answer["green"][0] == {
        "addr": "10.2.0.2",
        "version": 4,
        "OS-EXT-IPS:type": "fixed",
        "OS-EXT-IPS-MAC:mac_addr": own["mac_address"],
    }
    (detail,) = stocked.get("/v2.1/servers/detail")["servers"]
    assert detail["addresses"] == answer
    plain = {"addr": "10.2.0.2", "version": 4}
    assert stocked.get(f"/v2.1/servers/{server['id']}/ips")["addresses"]["green"][0] == plain
    for version, first in (("2.74", plain), ("2.75", answer["green"][0])):
        named = stocked.ask("PUT", f"/v2.1/servers/{server['id']}", {"server": {"name": "vm"}}, **at(version))
        assert named[1]["server"]["addresses"]["green"][0] == first

    ports = listed(stocked, "port", f"device_id={server['id']}")
    assert len(ports) == 3
    assert {port["device_owner"] for port in ports} == {"compute:nova"}
    assert {port["status"] for port in ports} == {"DOWN"}
    stocked.conductor.edit(server["id"], host="h1", vm_state="active", task_state=None)
    of_server = listed(stocked, "port", f"device_id={server['id']}")
    assert {(port_view["status"], port_view["binding:host_id"]) for port_view in of_server} == {("ACTIVE", "h1")}

    # What was made for the server goes with it; the port that was there is free again.
    assert stocked.ask("DELETE", f"/v2.1/servers/{server['id']}")[0] == 204
    (left,) = listed(stocked, "port")
    assert (left["id"], left["device_id"], left["device_owner"], addresses(left)) == (own["id"], "", "", ["10.2.0.2"])


def test_tags_of_interfaces_are_kept_for_each_kind(stocked: Cloud) -> None:
    blue = network(stocked, name="blue")
    subnet(stocked, blue)
    own = port(stocked, blue)
    nics = [{"port": own["id"], "tag": "front"}, {"uuid": blue["id"], "tag": "back"}]
    body = {"server": {**stocked.server, "networks": nics}}
    status, created = stocked.ask("POST", "/v2.1/servers", body, **at("2.42"))
    assert status == 202, created
    path = f"/v2.1/servers/{created['server']['id']}/os-interface"
    assert [
        interface_attachment["tag"] for interface_attachment in stocked.get(path, **at("2.70"))["interfaceAttachments"]
    ] == ["front", "back"]


def test_without_networks_a_server_is_on_the_only_one(stocked: Cloud) -> None:
    alone = stocked.make_server()
    assert shown(stocked, alone) == {}, "there is no network"
    blue = network(stocked, name="blue")
    subnet(stocked, blue)
    nothing: tuple[list[Json] | None, ...] = (None, [])
    for networks in nothing:
        server = stocked.make_server(networks=networks)
        assert [*shown(stocked, server)] == ["blue"]
    several = stocked.make_server(min_count=3, name="n")
    assert [*shown(stocked, several)] == ["blue"]
    assert len({port["fixed_ips"][0]["ip_address"] for port in listed(stocked, "port")}) == 5
    assert shown(stocked, alone) == {}
    subnet(stocked, network(stocked), "10.2.0.0/24")
    status, message = ask(stocked, None)
    assert (status, message) == (409, "Multiple possible networks found, use a Network ID to be more specific.")


@pytest.mark.parametrize(
    ("networks", "more", "status", "said"),
    [
        ([{}], {}, 400, "uuid or a port"),
        ([{"uuid": UNKNOWN}], {}, 400, f"Network {UNKNOWN} could not be found"),
        ([{"port": UNKNOWN}], {}, 400, f"Port id {UNKNOWN} could not be found"),
        ([{"uuid": "EMPTY"}], {}, 400, "requires a subnet"),
        ([{"uuid": "BLUE", "fixed_ip": "ten"}], {}, 400, "fixed_ip"),
        ([{"uuid": "BLUE", "fixed_ip": "10.9.0.1"}], {}, 400, "10.9.0.1"),
        ([{"uuid": "BLUE", "fixed_ip": "10.1.0.1"}], {}, 409, "gateway"),
        ([{"uuid": "BLUE", "fixed_ip": "10.1.0.2"}], {}, 409, "already allocated"),
        ([{"uuid": "BLUE", "fixed_ip": "10.1.0.9"}], {"max_count": 2}, 400, "max_count"),
        ([{"port": "PORT"}], {"max_count": 2}, 400, "max_count"),
        ([{"port": "PORT"}, {"port": "PORT"}], {}, 400, "twice"),
        ([{"port": "PORT", "fixed_ip": "10.1.0.9"}], {}, 400, "cannot be used with port"),
        ([{"port": "USED"}], {}, 409, "still in use"),
        ([{"uuid": "BLUE", "colour": "x"}], {}, 400, "colour"),
        ([{"uuid": "BLUE"}] * 17, {}, 400, "16 networks"),
        ("none", {}, 400, "networks"),
        ([{"uuid": "FULL"}], {"max_count": 2}, 503, "No more IP addresses available"),
    ],
)
def test_networks_that_cannot_be_are_refused(stocked: Cloud, networks: Any, more: Json, status: int, said: str) -> None:
    blue, empty, full = network(stocked, name="blue"), network(stocked), network(stocked)
    subnet(stocked, blue)
    subnet(stocked, full, "10.3.0.0/30")
    used = port(stocked, blue)
    stocked.make_server(networks=[{"port": used["id"]}])
    ids = {"BLUE": blue["id"], "EMPTY": empty["id"], "FULL": full["id"], "USED": used["id"]}
    ids["PORT"] = port(stocked, blue)["id"]
    if isinstance(networks, list):
        networks = [{key: ids.get(value, value) for key, value in nic.items()} for nic in networks]
    answer = ask(stocked, networks, **more)
    assert (answer[0], said in answer[1]) == (status, True), answer
    assert len(stocked.get("/v2.1/servers")["servers"]) == 1, "nothing is made"
    assert len(listed(stocked, "port")) == 2


def test_device_id_that_a_user_writes_gives_no_server_a_port(stocked: Cloud) -> None:
    server = stocked.make_server()
    blue = network(stocked)
    subnet(stocked, blue)
    port(stocked, blue, device_id=server["id"], device_owner="compute:nova")
    assert shown(stocked, server) == {}


def test_ports_of_servers_count_in_the_quota(stocked: Cloud) -> None:
    blue = network(stocked)
    subnet(stocked, blue)
    stocked.conductor.update_quota_set(
        RequestContext(request_id="req-1"), project_id="admin", limits={"ports": 2}, force=True
    )
    server = stocked.make_server(min_count=2, name="n")
    assert ask(stocked, None)[0] == 403
    stocked.ask("DELETE", f"/v2.1/servers/{server['id']}")
    stocked.make_server()


def test_servers_are_found_by_their_addresses(stocked: Cloud) -> None:
    blue = network(stocked)
    subnet(stocked, blue)
    subnet(stocked, blue, "2001:db8:1::/64")
    for name in ("front", "back"):
        stocked.make_server(name)
    names_by_query = {
        query: [server["name"] for server in stocked.get("/v2.1/servers", query_string=query)["servers"]]
        for query in ("ip=10.1.0.2", "ip=%5E10.1.0.%5B23%5D$", "ip=2001", "ip6=%5E2001:db8:1::3$", "ip6=fe80")
    }
    assert names_by_query == {
        "ip=10.1.0.2": ["front"],
        "ip=%5E10.1.0.%5B23%5D$": ["back", "front"],
        "ip=2001": [],
        "ip6=%5E2001:db8:1::3$": ["back"],
        "ip6=fe80": [],
    }
