"""Answers match the description at `/openapi.json`, at every microversion."""

import gzip
import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from minova.api.compute.routes import ROUTES
from minova.api.compute.versions import MAX, MIN
from minova.api.http.definition import Route
from minova.api.http.microversions import Version, text
from minova.api.openapi import at, describe
from minova.db import models
from minova.objects.servers.migration import MigrationType
from tests.functional.api.compute.servers.test_migrations import START
from tests.functional.api.compute.servers.test_migrations import add as add_migration
from tests.functional.api.compute.test_flavors_and_hosts import node, service
from tests.functional.api.conftest import Cloud
from tests.functional.api.network.test_networks import network, subnet

# Each route is asked at each version that changes its description, and at this part of the others: all of them take long.
PART = 4
VERSIONS: list[Version] = [(MIN[0], minor) for minor in range(MIN[1], MAX[1] + 1)]
DESCRIBED = [route for route in ROUTES if route.method == "GET" and route.answer]
Json = dict[str, Any]


@pytest.fixture(scope="module")
def documents() -> dict[Version, Json]:
    """Of Compute alone."""
    return {version: describe(api for api in at(version) if api.name == "compute") for version in VERSIONS}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """At least one of each thing that is listed. Tests only read."""
    cloud = Cloud(tmp_path_factory.mktemp("openapi")).with_catalogue()
    made(cloud, "POST", f"/v2.1/images/{cloud.server['imageRef']}/metadata", {"metadata": {"k": "v"}})
    cloud.conductor.add(service(1, "a"), service(2, "c", binary="minova-conductor", topic="conductor"))
    cloud.conductor.add(models.Heartbeat(service_id=1, last_seen=time.time()), node("a"))
    on = network(cloud)
    subnet(cloud, on)
    server = cloud.make_server(metadata={"k": "v"}, networks=[{"uuid": on["id"]}])["id"]
    cloud.conductor.edit(server, host="a", node="a.node", vm_state="active", task_state=None)
    made(cloud, "POST", f"/v2.1/flavors/{cloud.server['flavorRef']}/os-extra_specs", {"extra_specs": {"a": "b"}})
    made(cloud, "POST", "/v2.1/flavors", {"flavor": PRIVATE})
    made(cloud, "POST", "/v2.1/flavors/private/action", {"addTenantAccess": {"tenant": "demo"}})
    made(cloud, "POST", "/v2.1/os-keypairs", {"keypair": {"name": "key"}})
    made(cloud, "POST", "/v2.1/os-aggregates", {"aggregate": {"name": "rack", "availability_zone": "west"}})
    made(cloud, "POST", "/v2.1/os-server-groups", {"server_group": {"name": "g", "policies": ["affinity"]}})
    cloud.conductor.add(
        models.InstanceAction(
            id=1_000,
            instance_uuid=server,
            action="create",
            request_id="req-1",
            user_id="u",
            project_id="p",
            start_time=START,
            finish_time=START,
            result="Error",
            message="lost",
        ),
        models.InstanceActionEvent(
            action_id=1_000, event="compute_start", host="a", start_time=START, result="Error", details="why"
        ),
    )
    add_migration(cloud, server, MigrationType.LIVE_MIGRATION, "migrating", 0, "b")
    yield cloud
    cloud.close()


PRIVATE: Json = {
    "id": "private",
    "name": "private",
    "ram": 1,
    "vcpus": 1,
    "disk": 1,
    "os-flavor-access:is_public": False,
}


def made(cloud: Cloud, method: str, path: str, body: Json) -> None:
    status, answer = cloud.ask(method, path, body)
    assert status < 300, answer


def plain(document: Json) -> Json:
    """As it comes out of JSON."""
    copied: Json = json.loads(json.dumps(document))
    return copied


def schema_of(document: Json, route: Route) -> Json | None:
    """Of the answer, with what it refers to; None: the microversion does not have the route."""
    operation = document["paths"].get(route.path, {}).get(route.method.lower())
    if operation is None:
        return None
    status = next(status for status in operation["responses"] if status.startswith("2"))
    schema: Json = operation["responses"][status]["content"]["application/json"]["schema"]
    return {**schema, "components": document["components"]}


def path_of(cloud: Cloud, route: Route) -> str:
    server = cloud.get("/v2.1/servers")["servers"][0]["id"]
    values = {
        "image_id": cloud.server["imageRef"],
        "network_id": cloud.get("/v2.1/os-networks")["networks"][0]["id"],
        "security_group_id": cloud.get("/v2.1/os-security-groups")["security_groups"][0]["id"],
        "host_name": "a",
        "extension": "os-hosts",
        "port_id": cloud.get(f"/v2.1/servers/{server}/os-interface")["interfaceAttachments"][0]["port_id"],
        "request_id": "req-1",
        "server_id": server,
        "flavor_id": "private" if "access" in route.path else cloud.server["flavorRef"],
        "group_id": cloud.get("/v2.1/os-server-groups")["server_groups"][0]["id"],
        "keypair_name": "key",
        "aggregate_id": "1",
        "migration_id": "1",
        "key": "k",
        "name": "default",
        "before_timestamp": "2026-01-01%2000:00:00",
    }
    return re.sub(r"\{(\w+)\}", lambda variable: values.get(variable[1], "unknown"), route.path)


@pytest.mark.parametrize("route", DESCRIBED, ids=lambda route: route.path)
def test_answers_match_their_description_at_every_microversion(
    filled: Cloud, documents: dict[Version, Json], route: Route
) -> None:
    path = path_of(filled, route)
    schemas = {version: schema_of(documents[version], route) for version in VERSIONS}
    for number, (version, schema) in enumerate(schemas.items(), DESCRIBED.index(route)):
        before = schemas.get((version[0], version[1] - 1))
        if schema is None or (schema == before and number % PART):
            continue
        filled_path = path
        if "hypervisor_id" in route.path:
            shown = "a.node" if "search" in path or "servers" in path else hypervisor_id(filled, version)
            filled_path = route.path.replace("{hypervisor_id}", shown)
        answer = filled.get(filled_path, headers={"OpenStack-API-Version": f"compute {text(version)}"})
        validator = Draft202012Validator(schema)
        errors = [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(answer)]
        assert errors == [], f"{filled_path} at {text(version)}"


def hypervisor_id(cloud: Cloud, version: Version) -> str:
    headers = {"OpenStack-API-Version": f"compute {text(version)}"}
    return str(cloud.get("/v2.1/os-hypervisors", headers=headers)["hypervisors"][0]["id"])


def test_descriptions_differ_where_the_answers_do(documents: dict[Version, Json]) -> None:
    def properties(minor: int, name: str) -> set[str]:
        return set(documents[2, minor]["components"]["schemas"][name]["properties"])

    assert "locked" not in properties(8, "ServerView")
    assert "locked" in properties(9, "ServerView")
    assert "memory_mb" in properties(87, "HypervisorView")
    assert "memory_mb" not in properties(88, "HypervisorView")
    assert "/v2.1/servers/{server_id}/topology" not in documents[2, 77]["paths"]
    assert documents[2, 78]["paths"]["/v2.1/servers/{server_id}/topology"]["get"]["x-openstack"] == {"min-ver": "2.78"}
    versions = {
        each["paths"]["/v2.1/servers"]["get"]["parameters"][-1]["schema"]["enum"][0] for each in documents.values()
    }
    assert len(versions) == len(VERSIONS)


def test_description_is_served_to_everyone(cloud: Cloud, documents: dict[Version, Json]) -> None:
    newest = plain(describe())
    assert cloud.get("/openapi.json") == cloud.get("/openapi.json?microversion=latest") == newest
    older = cloud.get("/openapi.json?microversion=2.60")
    assert older["components"]["schemas"]["ServerView"] == plain(
        documents[2, 60]["components"]["schemas"]["ServerView"]
    )
    packed = cloud.client.simulate_get("/openapi.json", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(packed.content)) == newest
    for wrong, status in (("2.105", 406), ("1.1", 406), ("two", 400)):
        assert cloud.ask("GET", f"/openapi.json?microversion={wrong}")[0] == status
    assert cloud.ask("POST", "/openapi.json")[0] == 405


# -- the Network API -----------------------------------------------------------------------------------------------------

# (what is asked, what the answer must hold of it: each property of this schema)
OF_NETWORK = {
    "network": "NetworkAnswer",
    "subnet": "SubnetAnswer",
    "port": "PortAnswer",
    "security_group": "SecurityGroupAnswer",
    "security_group_rule": "SecurityGroupRuleAnswer",
}


def checked(cloud: Cloud, document: Json, method: str, path: str, body: Json | None = None, **values: str) -> Any:
    """The answer, which matches the description. `values`: of the path's variables."""
    status, answer = cloud.ask(method, path.format(**values), body)
    assert status < 300, answer
    response = document["paths"][path][method.lower()]["responses"][str(status)]
    schema = response["content"]["application/json"]["schema"] | {"components": document["components"]}
    schema_errors = [
        f"{error.json_path}: {error.message[:200]}" for error in Draft202012Validator(schema).iter_errors(answer)
    ]
    assert schema_errors == [], f"{method} {path}"
    return answer


def test_answers_of_the_network_api_match_their_description(cloud: Cloud) -> None:
    """What is created, shown, listed and changed, whole and with `fields`; an administrator is shown every property."""
    document = plain(describe())
    root = "/network/v2.0"
    created: Json = {}
    for name, body in (
        ("network", {}),
        ("subnet", {"ip_version": 4, "cidr": "10.1.0.0/24", "dns_nameservers": ["9.9.9.9"]}),
        ("port", {}),
        ("security_group", {"name": "web"}),
        ("security_group_rule", {"direction": "ingress", "protocol": "tcp"}),
    ):
        parents = {"subnet": "network", "port": "network", "security_group_rule": "security_group"}
        parent = {f"{parents[name]}_id": created[parents[name]]["id"]} if name in parents else {}
        many = f"{root}/{name.replace('_', '-')}s"
        created[name] = checked(cloud, document, "POST", many, {name: {**body, **parent}})[name]
        resource_path, key = f"{many}/{{{name}_id}}", {f"{name}_id": created[name]["id"]}
        shown = checked(cloud, document, "GET", resource_path, **key)[name]
        assert shown.keys() == document["components"]["schemas"][OF_NETWORK[name]]["properties"].keys()
        assert checked(cloud, document, "GET", many)[f"{name}s"]
        if name != "security_group_rule":
            checked(cloud, document, "PUT", resource_path, {name: {"description": "d"}}, **key)
        status, few = cloud.ask("GET", f"{resource_path.format(**key)}?fields=id")
        assert (status, few) == (200, {name: {"id": created[name]["id"]}})
    page = cloud.get(f"{root}/security-groups?limit=1")
    schema = document["paths"][f"{root}/security-groups"]["get"]["responses"]["200"]["content"]["application/json"]
    Draft202012Validator({**schema["schema"], "components": document["components"]}).validate(page)
    assert page["security_groups_links"]


def test_limits_and_extensions_of_the_network_api_match_their_description(cloud: Cloud) -> None:
    document = plain(describe())
    quota = "/network/v2.0/quotas/{project_id}"
    checked(cloud, document, "PUT", quota, {"quota": {"port": 7}}, project_id="p")
    for path in (quota, f"{quota}/default", f"{quota}/details"):
        checked(cloud, document, "GET", path, project_id="p")
    assert checked(cloud, document, "GET", "/network/v2.0/quotas")["quotas"]
    assert checked(cloud, document, "GET", "/network/v2.0/extensions")["extensions"]
    checked(cloud, document, "GET", "/network/v2.0/extensions/{alias}", alias="net-mtu")


# -- the Image API -------------------------------------------------------------------------------------------------------


def test_answers_of_the_image_api_match_their_description(cloud: Cloud) -> None:
    document = plain(describe())
    many, image_path = "/v2/images", "/v2/images/{image_id}"
    body = {"name": "guest", "disk_format": "raw", "container_format": "bare", "os_distro": "debian"}
    image = checked(cloud, document, "POST", many, body)["id"]
    assert checked(cloud, document, "GET", image_path, image_id=image)["os_distro"] == "debian", "queued"
    assert cloud.upload(image, b"\0" * 1024)[0] == 204
    assert checked(cloud, document, "GET", image_path, image_id=image)["size"] == 1024
    cloud.make_image("other")
    assert len(checked(cloud, document, "GET", many)["images"]) == 2
    members = f"{image_path}/members"
    checked(cloud, document, "POST", members, {"member": "friends"}, image_id=image)
    assert checked(cloud, document, "GET", members, image_id=image)["members"]
    member = f"{members}/{{member_id}}"
    checked(cloud, document, "GET", member, image_id=image, member_id="friends")
    checked(cloud, document, "GET", "/v2/info/import")
    schema = document["components"]["schemas"]["ImageAnswer"] | {"components": document["components"]}
    Draft202012Validator(schema).validate(cloud.get(f"{many}?limit=1")["images"][0])
    assert list(Draft202012Validator(schema).iter_errors({"id": image})), "fields are missing"
