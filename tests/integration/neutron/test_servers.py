"""Servers on networks of a real Neutron: ports made, bound, waited for, unbound and deleted. Its agents are stand-ins that keep books."""

import uuid

from tests.integration.neutron.conftest import HOST, Cloud
from tests.waiting import wait_for

GREEN = "10.8.0.0/24"


def test_a_server_gets_a_port_and_runs_when_it_is_wired(cloud: Cloud) -> None:
    """Neutron's event lets the guest run; then the port goes with the server."""
    server = cloud.boot("web", [{"uuid": cloud.network["id"]}], config_drive=True)
    (port,) = cloud.bound(server)
    assert (port["device_owner"], port["binding:host_id"], port["binding:vif_type"]) == ("compute:nova", HOST, "ovs")
    assert port["tenant_id"] == "demo"
    assert cloud.show(server)["status"] == "BUILD"
    cloud.neutron.wired(HOST, port["id"])
    shown = cloud.until(server, "ACTIVE")
    (address,) = shown["addresses"]["blue"]
    assert address["addr"] == port["fixed_ips"][0]["ip_address"]
    assert address["OS-EXT-IPS-MAC:mac_addr"] == port["mac_address"]
    cloud.delete(server)
    wait_for("its port is deleted", lambda: not cloud.ports(server))


def test_ports_of_users_are_bound_and_given_back(cloud: Cloud) -> None:
    port = cloud.neutron.port(cloud.network["id"])
    server = cloud.boot("user", [{"port": port["id"]}])
    (bound,) = cloud.bound(server)
    assert bound["id"] == port["id"]
    refusal = cloud.create("second", [{"port": port["id"]}], status=409)
    assert "in use" in refusal["conflictingRequest"]["message"]
    cloud.neutron.wired(HOST, port["id"])
    cloud.until(server, "ACTIVE")
    cloud.delete(server)

    def is_free() -> bool:
        now = cloud.neutron.call("GET", f"/v2.0/ports/{port['id']}")["port"]
        return (now["device_id"], now["binding:host_id"], now["device_owner"]) == ("", "", "")

    wait_for("the port is unbound", is_free)


def test_addresses_groups_and_several_networks(cloud: Cloud) -> None:
    green = cloud.neutron.network("green", GREEN)
    group = cloud.neutron.call(
        "POST", "/v2.0/security-groups", {"security_group": {"name": "web", "tenant_id": "demo"}}
    )["security_group"]
    networks = [{"uuid": green["id"], "fixed_ip": "10.8.0.77"}, {"uuid": cloud.network["id"]}]
    server = cloud.boot("two", networks, security_groups=[{"name": "web"}])
    ports = cloud.bound(server, 2)
    assert all(port["security_groups"] == [group["id"]] for port in ports)
    for port in ports:
        cloud.neutron.wired(HOST, port["id"])
    addresses = cloud.until(server, "ACTIVE")["addresses"]
    assert list(addresses) == ["green", "blue"]
    assert addresses["green"][0]["addr"] == "10.8.0.77"
    cloud.delete(server)


def test_groups_and_addresses_of_a_server_change_in_neutron(cloud: Cloud) -> None:
    group_body = {"security_group": {"name": "ssh", "tenant_id": "demo"}}
    group = cloud.neutron.call("POST", "/v2.0/security-groups", group_body)["security_group"]
    server = cloud.boot("secured", [{"uuid": cloud.network["id"]}])
    (port,) = cloud.bound(server)
    rule = {
        "protocol": "tcp",
        "port_range_min": 22,
        "port_range_max": 22,
        "remote_group_id": port["security_groups"][0],
    }
    rule |= {"security_group_id": group["id"], "direction": "ingress", "tenant_id": "demo"}
    cloud.neutron.call("POST", "/v2.0/security-group-rules", {"security_group_rule": rule})
    cloud.neutron.wired(HOST, port["id"])
    cloud.until(server, "ACTIVE")
    shows_groups(cloud, server, "default")
    cloud.act(server, "addSecurityGroup", name="ssh")
    (changed,) = cloud.ports(server)
    assert set(changed["security_groups"]) == {*port["security_groups"], group["id"]}
    shows_groups(cloud, server, "default", "ssh")
    shown = cloud.ask("GET", f"/v2.1/servers/{server}/os-security-groups")["security_groups"]
    assert [group_view["name"] for group_view in shown] == ["default", "ssh"]
    (shown_rule,) = shown[1]["rules"]
    assert (shown_rule["ip_protocol"], shown_rule["from_port"], shown_rule["group"]["name"]) == ("tcp", 22, "default")
    cloud.act(server, "removeSecurityGroup", name=group["id"])
    shows_groups(cloud, server, "default")

    def addresses() -> list[str]:
        return [address["addr"] for address in cloud.show(server)["addresses"]["blue"]]

    (first,) = addresses()
    cloud.act(server, "addFixedIp", networkId=cloud.network["id"])
    second = wait_for("it has two addresses", lambda: [address for address in addresses() if address != first])[0]
    cloud.act(server, "removeFixedIp", address=first)
    wait_for("it has the second one", lambda: addresses() == [second])
    cloud.delete(server)


def shows_groups(cloud: Cloud, server: str, *names: str) -> None:
    """Alone and in a list. They are not shown if Neutron is too slow."""

    def are_shown() -> bool:
        (listed,) = cloud.ask("GET", f"/v2.1/servers/detail?uuid={server}")["servers"]
        shown = [each.get("security_groups") for each in (listed, cloud.show(server))]
        return shown == [[{"name": name} for name in names]] * 2

    wait_for(f"its groups are {names}", are_shown)


def test_what_neutron_changes_later_is_shown(cloud: Cloud) -> None:
    """Its event, or the look from time to time."""
    server = cloud.boot("later", [{"uuid": cloud.network["id"]}])
    (port,) = cloud.bound(server)
    cloud.neutron.wired(HOST, port["id"])
    cloud.until(server, "ACTIVE")
    subnet = port["fixed_ips"][0]["subnet_id"]
    # Neutron has given some addresses at random.
    taken = {
        each["ip_address"] for port in cloud.neutron.call("GET", "/v2.0/ports")["ports"] for each in port["fixed_ips"]
    }
    address = next(each for number in range(200, 250) if (each := f"10.9.0.{number}") not in taken)
    fixed = {"fixed_ips": [{"subnet_id": subnet, "ip_address": address}]}
    cloud.neutron.call("PUT", f"/v2.0/ports/{port['id']}", {"port": fixed})
    wait_for(
        "the address is shown",
        lambda: [each["addr"] for each in cloud.show(server)["addresses"]["blue"]] == [address],
    )
    cloud.delete(server)


def test_a_port_that_no_agent_binds_is_a_fault(cloud: Cloud) -> None:
    """No agent knows its physical network."""
    network_fields = {"provider:network_type": "flat", "provider:physical_network": "nowhere"}
    far = cloud.neutron.network("far", "10.7.0.0/24", **network_fields)
    server = cloud.boot("far", [{"uuid": far["id"]}])
    shown = wait_for("it has failed", lambda: (now := cloud.show(server))["status"] == "ERROR" and now)
    assert "The network service could not bind a port of the server to the host." in str(shown["fault"])
    cloud.delete(server)
    wait_for("its port is deleted", lambda: not cloud.ports(server))


def test_no_network_and_unknown_ones(cloud: Cloud) -> None:
    server = cloud.boot("none", "none")
    assert cloud.until(server, "ACTIVE")["addresses"] == {}
    assert cloud.ports(server) == []
    cloud.delete(server)
    refusal = cloud.create("x", [{"uuid": "6c5d4b1a-0d3a-4f6b-9a52-9d2f4d1f0001"}], status=400)
    assert "could not be found" in refusal["badRequest"]["message"]
    answer = cloud.ask("GET", "/network/v2.0/networks", status=404)
    assert answer is None


def test_a_server_deleted_while_it_waits_leaves_no_port(cloud: Cloud) -> None:
    server = cloud.boot("short", [{"uuid": cloud.network["id"]}])
    cloud.bound(server)
    cloud.delete(server)
    wait_for("its port is deleted", lambda: not cloud.ports(server))


def test_an_interface_comes_and_goes_while_the_guest_runs(cloud: Cloud) -> None:
    server = cloud.boot("hot", "none")
    cloud.until(server, "ACTIVE")
    path = f"/v2.1/servers/{server}/os-interface"
    for unknown in ("net_id", "port_id"):
        answer = cloud.ask("POST", path, {"interfaceAttachment": {unknown: str(uuid.uuid4())}}, status=404)
        assert "could not be found" in answer["itemNotFound"]["message"]
    attachment_body = {"interfaceAttachment": {"net_id": cloud.network["id"], "tag": "second"}}
    interfaceattachment = cloud.ask("POST", path, attachment_body)["interfaceAttachment"]
    (port,) = cloud.ports(server)
    assert (port["id"], port["binding:host_id"], port["binding:vif_type"]) == (
        interfaceattachment["port_id"],
        HOST,
        "ovs",
    )
    assert interfaceattachment["mac_addr"] == port["mac_address"]
    assert interfaceattachment["fixed_ips"] == port["fixed_ips"]
    (listed,) = cloud.ask("GET", path)["interfaceAttachments"]
    assert (listed["port_id"], listed["tag"]) == (port["id"], "second")
    assert cloud.show(server)["addresses"]["blue"][0]["addr"] == port["fixed_ips"][0]["ip_address"]
    cloud.ask("DELETE", f"{path}/{port['id']}")
    wait_for("its port is deleted", lambda: not cloud.ports(server))
    cloud.delete(server)


def test_a_shelved_server_keeps_its_ports_without_a_host(cloud: Cloud) -> None:
    server = cloud.boot("shelf", [{"uuid": cloud.network["id"]}])
    (port,) = cloud.bound(server)
    cloud.neutron.wired(HOST, port["id"])
    cloud.until(server, "ACTIVE")
    cloud.ask("POST", f"/v2.1/servers/{server}/action", {"shelve": None})
    wait_for("it is offloaded", lambda: cloud.show(server)["status"] == "SHELVED_OFFLOADED")
    wait_for("its port is unbound", lambda: [port["binding:host_id"] for port in cloud.ports(server)] == [""])
    cloud.ask("POST", f"/v2.1/servers/{server}/action", {"unshelve": None})
    (again,) = cloud.bound(server)
    assert (again["id"], again["fixed_ips"]) == (port["id"], port["fixed_ips"])
    cloud.neutron.wired(HOST, port["id"])
    wait_for("it runs again", lambda: cloud.show(server)["status"] == "ACTIVE")
    cloud.delete(server)
