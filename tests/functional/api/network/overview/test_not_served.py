"""What is not served is said: refusals name it, and what could be sent instead."""

import importlib
import pkgutil
import re
from typing import Any

import openstack.network.v2 as sdk
import pytest
from openstack.resource import Resource

from minova.db import models
from tests.functional.api.conftest import Cloud
from tests.functional.api.network.test_networks import listed, network, refused

ROOT = "/network/v2.0"


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("GET", "trunks", "Trunks"),
        ("POST", "trunks", "Trunks"),
        ("PUT", "trunks/1/add_subports", "Trunks"),
        ("GET", "qos/policies", "QoS policies"),
        ("POST", "rbac-policies", "RBAC policies"),
        ("GET", "segments.json", "Segments"),
        ("GET", "metering/metering-labels", "Metering labels"),
        ("GET", "address-scopes", "Address scopes"),
        ("POST", "routers", "Routers"),
        ("DELETE", "routers/1", "Routers"),
        ("PUT", "routers/1/add_router_interface", "Routers"),
        ("POST", "floatingips", "Floating addresses"),
        ("GET", "floatingips/1/port_forwardings", "Floating addresses"),
        ("GET", "ports/1/bindings", "Bindings of ports to several hosts"),
    ],
)
def test_404_names_what_is_not_served(cloud: Cloud, method: str, path: str, name: str) -> None:
    status, answer = cloud.ask(method, f"{ROOT}/{path}", {} if method in ("POST", "PUT") else None)
    assert (status, answer["NeutronError"]["type"]) == (404, "HTTPNotFound")
    assert answer["NeutronError"]["message"] == f"{name} are not served by minova's built-in networks."


def paths_of_the_sdk() -> list[str]:
    """The paths of the Network API's resources in OpenStack's SDK."""
    kinds = (
        value
        for module in pkgutil.iter_modules(sdk.__path__, f"{sdk.__name__}.")
        for value in vars(importlib.import_module(module.name)).values()
    )
    return sorted(
        {kind.base_path for kind in kinds if isinstance(kind, type) and issubclass(kind, Resource) and kind.base_path}
    )


def test_each_listing_of_the_sdk_is_served_or_named(cloud: Cloud) -> None:
    given = {"project": "p1", "network_id": network(cloud)["id"]}
    paths = [path.partition("?")[0] for path in paths_of_the_sdk() if path != "/"]
    assert len(paths) > 50
    unknown = {}
    for path in paths:
        names = re.findall(r"%\((\w+)\)s", path)
        status, answer = cloud.ask("GET", f"{ROOT}{path % {name: given.get(name, '1') for name in names}}")
        if status != 200 and not str(answer["NeutronError"]["message"]).endswith("by minova's built-in networks."):
            unknown[path] = status, answer
    assert unknown == {}


def test_other_paths_are_unknown(cloud: Cloud) -> None:
    for path in ("elephants", "networks/1/2/3", "ports/1/elephants"):
        assert cloud.ask("GET", f"{ROOT}/{path}")[1]["NeutronError"]["message"] == "The resource could not be found."
    assert cloud.ask("POST", f"{ROOT}/networks/1")[0] == 405


@pytest.mark.parametrize("path", ["routers", "floatingips", "service-providers", "rbac-policies"])
def test_listings_that_clients_read_are_empty(cloud: Cloud, path: str) -> None:
    for suffix in ("", ".json", "?fields=id&limit=2"):
        assert cloud.get(f"{ROOT}/{path}{suffix}") == {path.replace("-", "_"): []}


def test_every_path_has_a_second_name(cloud: Cloud) -> None:
    new_network = network(cloud)
    assert cloud.get(f"{ROOT}/networks.json") == cloud.get(f"{ROOT}/networks")
    assert cloud.get(f"{ROOT}/networks/{new_network['id']}.json")["network"] == new_network
    assert cloud.get(f"{ROOT}/quotas/p1/details.json") == cloud.get(f"{ROOT}/quotas/p1/details")
    assert cloud.ask("POST", f"{ROOT}/networks.json", {"network": {}})[0] == 201
    assert cloud.ask("DELETE", f"{ROOT}/networks/{new_network['id']}.json")[0] == 204


def test_unknown_fields_and_values_say_what_is_allowed(cloud: Cloud) -> None:
    new_network = network(cloud)
    status, _, message = refused(cloud, "port", network_id=new_network["id"], elephant=True)
    assert (status, "unknown field `elephant` - at `$.port`; allowed are: admin_state_up, " in message) == (400, True)
    status, answer = cloud.ask(
        "POST", f"{ROOT}/ports", {"ports": [{"network_id": new_network["id"], "fixed_ips": [{"x": 1}]}]}
    )
    assert answer["NeutronError"]["message"].endswith("allowed are: ip_address, subnet_id")
    body = {"security_group_id": new_network["id"], "direction": "sideways"}
    status, answer = cloud.ask("POST", f"{ROOT}/security-group-rules", {"security_group_rule": body})
    assert answer["NeutronError"]["message"].endswith("; allowed are: egress, ingress")


def test_no_network_promises_floating_addresses(cloud: Cloud) -> None:
    status, _, message = refused(cloud, "network", **{"router:external": True})
    assert (status, "no routers and no floating addresses" in message) == (400, True)
    new_network = network(cloud, **{"router:external": False})
    path = f"{ROOT}/networks/{new_network['id']}"
    outside: dict[str, Any] = {"network": {"router:external": True}}
    assert cloud.ask("PUT", path, outside)[0] == 400
    # One of an earlier version.
    cloud.db.run(lambda session: session.query(models.Network).update({"external": True}))
    shown = cloud.get(path)["network"]
    assert (shown["router:external"], shown["shared"]) == (False, True)
    assert listed(cloud, "network", "router:external=True") == []
    assert [network["id"] for network in listed(cloud, "network", "router:external=False&shared=True")] == [
        new_network["id"]
    ]
    assert listed(cloud, "network", "shared=False") == []
    outside["network"]["router:external"] = False
    assert cloud.ask("PUT", path, outside)[1]["network"]["shared"] is False
    aliases = {extension["alias"] for extension in cloud.get(f"{ROOT}/extensions")["extensions"]}
    assert not aliases & {"router", "external-net", "trunk", "qos"}
