"""Computes as agents, their zones, and how many addresses networks have left."""

import time
from datetime import datetime

from minova.db import models
from tests.functional.api.compute.test_flavors_and_hosts import node, service
from tests.functional.api.conftest import Cloud
from tests.functional.api.network.test_networks import UNKNOWN, network, port, subnet

ROOT = "/network/v2.0"


def test_computes_are_agents(cloud: Cloud) -> None:
    assert cloud.get(f"{ROOT}/agents") == {"agents": []}
    cloud.conductor.add(service(1, "a"), service(2, "b"), service(3, "c", binary="minova-conductor", topic="conductor"))
    cloud.conductor.add(models.Heartbeat(service_id=1, last_seen=time.time()), node("a"))
    alive, silent = cloud.get(f"{ROOT}/agents")["agents"]
    assert (alive["host"], alive["alive"], alive["admin_state_up"]) == ("a", True, True)
    assert datetime.strptime(alive["heartbeat_timestamp"], "%Y-%m-%d %H:%M:%S").year >= 2024  # noqa: DTZ007
    assert (alive["binary"], alive["availability_zone"]) == ("minova-compute", "nova")
    assert (silent["host"], silent["alive"], silent["heartbeat_timestamp"]) == ("b", False, None)
    assert cloud.get(f"{ROOT}/agents/{alive['id']}")["agent"]["host"] == "a"
    assert cloud.get(f"{ROOT}/agents?host=b&fields=host") == {"agents": [{"host": "b"}]}
    assert cloud.get(f"{ROOT}/agents?alive=True&fields=host") == {"agents": [{"host": "a"}]}
    assert cloud.get(f"{ROOT}/agents?agent_type=DHCP agent") == {"agents": []}
    status, answer = cloud.ask("GET", f"{ROOT}/agents/{UNKNOWN}")
    assert (status, answer["NeutronError"]["type"]) == (404, "AgentNotFound")


def test_zones_of_networks_are_those_of_computes(cloud: Cloud) -> None:
    assert cloud.get(f"{ROOT}/availability_zones") == {"availability_zones": []}
    cloud.conductor.add(service(1, "a"), service(2, "b", disabled=True))
    body = {"aggregate": {"name": "rack", "availability_zone": "west"}}
    rack = cloud.ask("POST", "/v2.1/os-aggregates", body)[1]["aggregate"]["id"]
    assert cloud.ask("POST", f"/v2.1/os-aggregates/{rack}/action", {"add_host": {"host": "b"}})[0] == 200
    assert cloud.get(f"{ROOT}/availability_zones")["availability_zones"] == [
        {"name": "nova", "resource": "network", "state": "available"},
        {"name": "west", "resource": "network", "state": "unavailable"},
    ]


def test_addresses_that_networks_have_and_use(cloud: Cloud) -> None:
    blue, green = network(cloud, name="blue"), network(cloud, name="green")
    front = subnet(cloud, blue, allocation_pools=[{"start": "10.1.0.10", "end": "10.1.0.19"}])
    subnet(cloud, blue, "10.2.0.0/29")
    port(cloud, blue, fixed_ips=[{"subnet_id": front["id"]}])
    port(cloud, blue, fixed_ips=[{"ip_address": "10.1.0.99"}])
    every = cloud.get(f"{ROOT}/network-ip-availabilities")["network_ip_availabilities"]
    assert [
        (network_usage["network_name"], network_usage["total_ips"], network_usage["used_ips"])
        for network_usage in every
    ] == [
        ("blue", 15, 2),
        ("green", 0, 0),
    ]
    shown = cloud.get(f"{ROOT}/network-ip-availabilities/{blue['id']}")["network_ip_availability"]
    assert shown == every[0]
    assert [
        (subnet_usage["cidr"], subnet_usage["total_ips"], subnet_usage["used_ips"])
        for subnet_usage in shown["subnet_ip_availability"]
    ] == [
        ("10.1.0.0/24", 10, 2),
        ("10.2.0.0/29", 5, 0),
    ]
    path = f"{ROOT}/network-ip-availabilities?network_name=green"
    assert [
        network_ip_availability["network_id"]
        for network_ip_availability in cloud.get(path)["network_ip_availabilities"]
    ] == [green["id"]]
    assert cloud.ask("GET", f"{ROOT}/network-ip-availabilities/{UNKNOWN}")[0] == 404


def test_extensions_are_found_by_their_alias(cloud: Cloud) -> None:
    for extension in cloud.get(f"{ROOT}/extensions")["extensions"]:
        assert cloud.get(f"{ROOT}/extensions/{extension['alias']}") == {"extension": extension}
