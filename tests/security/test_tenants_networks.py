"""What a tenant may do with `local` networks: nothing to hosts, and nothing to the networks of others."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minova import errors
from minova.conductor.network.local_ranges import NAMESPACES
from minova.db import models
from minova.db.networks import vifs
from tests.fakes.row_conductor import now
from tests.functional.api.conftest import Cloud
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.network_cases import network, on, port, subnet
from tests.security.identities import login, with_users
from tests.tables import create_all

ROOT = "/network/v2.0"


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    users = with_users(tmp_path)
    yield users
    users.close()


def ask(cloud: Cloud, user: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    return cloud.ask(method, f"{ROOT}/{path}", body, headers=login(user))


def make(cloud: Cloud, user: str, kind: str, **values: Any) -> Any:
    status, answer = ask(cloud, user, "POST", f"{kind}s", {kind: values})
    assert status == 201, answer
    return answer[kind]


def test_tenant_neither_makes_a_network_reachable_nor_sees_which_are(cloud: Cloud) -> None:
    assert ask(cloud, "alice", "POST", "networks", {"network": {"minova:reachable": True}})[0] == 403
    network = make(cloud, "alice", "network")
    assert "minova:reachable" not in network
    path = f"networks/{network['id']}"
    for reachable in (True, False):
        assert ask(cloud, "alice", "PUT", path, {"network": {"minova:reachable": reachable}})[0] == 403
    assert ask(cloud, "admin", "PUT", path, {"network": {"minova:reachable": True}})[0] == 200
    assert ask(cloud, "admin", "GET", path)[1]["network"]["minova:reachable"]
    assert "minova:reachable" not in ask(cloud, "alice", "GET", path)[1]["network"]


def test_tenant_gives_hosts_no_route(cloud: Cloud) -> None:
    """Not by a subnet of an own network either that an administrator has made reachable."""
    network = make(cloud, "alice", "network")
    path = f"networks/{network['id']}"
    subnet_body = {"network_id": network["id"], "ip_version": 4, "cidr": "10.1.0.0/24"}
    subnet = make(cloud, "alice", "subnet", **subnet_body)
    assert ask(cloud, "admin", "PUT", path, {"network": {"minova:reachable": True}})[0] == 200
    assert ask(cloud, "alice", "POST", "subnets", {"subnet": subnet_body | {"cidr": "10.2.0.0/24"}})[0] == 403
    make(cloud, "admin", "subnet", **subnet_body | {"cidr": "10.2.0.0/24"})
    assert ask(cloud, "alice", "DELETE", f"subnets/{subnet['id']}")[0] == 204


def test_ranges_of_others_neither_show_nor_hinder(cloud: Cloud) -> None:
    """Alice takes many ranges; bob gets the same answers as before, also for hers."""
    cloud.conductor.levels["compute"] = NAMESPACES
    hers = make(cloud, "alice", "network")["id"]
    for number in range(20):
        make(cloud, "alice", "subnet", network_id=hers, ip_version=4, cidr=f"10.{number}.0.0/16")
    his = make(cloud, "bob", "network")["id"]
    for cidr in ("10.0.0.0/16", "10.7.9.0/24", "10.200.0.0/16"):
        make(cloud, "bob", "subnet", network_id=his, ip_version=4, cidr=cidr)


@pytest.mark.parametrize(
    "cidr", ["169.254.0.0/16", "169.254.169.0/24", "169.0.0.0/8", "0.0.0.0/8", "127.5.0.0/16", "::/16", "fe80::/64"]
)
def test_no_subnet_has_addresses_that_each_host_has_itself(cloud: Cloud, cidr: str) -> None:
    cloud.conductor.levels["compute"] = NAMESPACES
    network = make(cloud, "alice", "network")["id"]
    subnet_body = {"network_id": network, "ip_version": 6 if ":" in cidr else 4, "cidr": cidr}
    status, answer = ask(cloud, "alice", "POST", "subnets", {"subnet": subnet_body})
    assert (status, "cidr" in answer["NeutronError"]["message"]) == (400, True)


HOST = "198.51.100.7"
OF_THE_HOST = (
    *("127.0.0.1", "127.0.0.53", "0.0.0.0", "0.1.2.3", "169.254.169.254", "224.0.0.251", "255.255.255.255"),
    *("::1", "::", "::ffff:127.0.0.1", "::127.0.0.1", "fe80::1", "ff02::fb", HOST),
)


@pytest.mark.parametrize("server", OF_THE_HOST)
def test_resolver_that_is_the_host_itself_is_refused(cloud: Cloud, server: str) -> None:
    sizes = {"vcpus": 1, "memory_mb": 1, "local_gb": 1}
    node = {"uuid": "n1", "host": "h1", "hypervisor_hostname": "h1", "host_ip": HOST, "created_at": now()}
    cloud.conductor.add(models.ComputeNode(**sizes, **node))
    network = make(cloud, "alice", "network")["id"]
    subnet_body = {"network_id": network, "ip_version": 4, "cidr": "10.1.0.0/24"}
    refused = {"dns_nameservers": ["9.9.9.9", server]}
    own_subnet = make(cloud, "alice", "subnet", **subnet_body, dns_nameservers=["9.9.9.9"])
    for method, path, body in (
        ("POST", "subnets", subnet_body | {"cidr": "10.2.0.0/24"} | refused),
        ("PUT", f"subnets/{own_subnet['id']}", refused),
    ):
        status, answer = ask(cloud, "alice", method, path, {"subnet": body})
        assert (status, "dns_nameservers" in answer["NeutronError"]["message"]) == (400, True), answer
    assert ask(cloud, "alice", "GET", f"subnets/{own_subnet['id']}")[1]["subnet"]["dns_nameservers"] == ["9.9.9.9"]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ConductorHarness]:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    create_all(url)
    harness = ConductorHarness(url, hosts=("a",))
    harness.levels["compute"] = NAMESPACES
    yield harness
    harness.close()


def test_host_asks_no_resolver_of_its_own_that_a_row_still_names(harness: ConductorHarness) -> None:
    mine = network(harness)
    subnet(harness, mine, "10.1.0.0/24", dns_nameservers=("127.0.0.53", "9.9.9.9"))
    uuid = harness.active(**on(mine))
    with harness.db.read() as session:
        (vif,) = vifs.of_instances(session, [uuid])[uuid]
    assert [subnet.dns_nameservers for subnet in vif.subnets] == [("9.9.9.9",)]


def test_metadata_of_another_network_stays_hidden_from_a_guest_without_filters(harness: ConductorHarness) -> None:
    """The deleted subnet of an attacker's network has the range of the victim's now."""
    theirs = network(harness)
    subnet(harness, theirs, "10.1.0.0/24")
    deleted = subnet(harness, theirs, "10.2.0.0/24")
    free = port(harness, theirs, "10.1.0.9", port_security_enabled=False, security_groups=())
    harness.active(requested_networks=({"network_id": theirs.id, "port_id": free.id},))
    harness.conductor.delete_subnet(CTX, subnet_id=deleted.id)
    mine = network(harness)
    subnet(harness, mine, "10.2.0.0/24")
    victim = harness.active(**on(mine), user_data="c2VjcmV0")
    address = "10.2.0.2"
    caller_address = {"host": "a", "address": address}
    assert harness.conductor.metadata_of_address(CTX, **caller_address, network_id=mine.id).instance.uuid == victim
    with pytest.raises(errors.NotFound):
        harness.conductor.metadata_of_address(CTX, **caller_address, network_id=theirs.id)
    with pytest.raises(errors.NotFound):
        harness.conductor.leave_password_of_address(CTX, **caller_address, network_id=theirs.id, password="x")


def test_names_on_a_shared_network_are_of_their_project(harness: ConductorHarness) -> None:
    """A guest named `wpad` does not answer for what guests of other projects look up."""
    shared, own = network(harness, shared=True), network(harness)
    for each_network, cidr in ((shared, "10.1.0.0/24"), (own, "10.2.0.0/24")):
        subnet(harness, each_network, cidr)
    uuid = harness.active(**on(shared, own), name="wpad")
    told = harness.conductor.interfaces_of_host(CTX, host="a")[uuid]
    assert [(vif.dns_domain, vif.hostname) for vif in told] == [
        (f"{CTX.project_id}.openstacklocal", "wpad"),
        ("", "wpad"),
    ]
