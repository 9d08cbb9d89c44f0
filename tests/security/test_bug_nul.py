"""The character U+0000 is refused wherever a request may bring it: one stored on PostgreSQL made scheduling and listings fail for everybody."""

import json
import re
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from minova.api.compute.definition import ComputeDefinition
from minova.api.http.definition import Route
from minova.api.image.changes.json_patch import DRAFTS
from minova.api.image.definition import ImageDefinition
from minova.api.network.definition import NetworkDefinition
from tests.functional.api.conftest import Cloud

SERVERS, FLAVORS, IMAGES, GROUPS = "/v2.1/servers", "/v2.1/flavors", "/v2/images", "/v2.1/os-server-groups"
HEADERS = {"OpenStack-API-Version": "compute 2.90"}
NUL = "a\0b"
APIS: dict[str, tuple[Route, ...]] = {
    "": (*ComputeDefinition.routes, *ImageDefinition.routes),
    "/network": tuple(NetworkDefinition.routes),
}


def refused(answer: tuple[int, Any], place: str) -> None:
    status, document = answer
    assert status == 400, document
    # Each API has a form of its own around the message.
    assert json.dumps(f"Invalid input: {place} has a NUL character.") in json.dumps(document)


SERVER: dict[str, tuple[dict[str, Any], str]] = {
    "name": ({"name": NUL}, "$.server.name"),
    "metadata": ({"metadata": {"k": NUL}}, "$.server.metadata.k"),
    "key of metadata": ({"metadata": {NUL: "v"}}, r"$.server.metadata.a\u0000b"),
    "availability zone": ({"availability_zone": NUL}, "$.server.availability_zone"),
    "key name": ({"key_name": NUL}, "$.server.key_name"),
    "security group": ({"security_groups": [{"name": NUL}]}, "$.server.security_groups[0].name"),
    "user data": ({"user_data": "YQ==\0"}, "$.server.user_data"),
}


@pytest.mark.parametrize("name", SERVER)
def test_server(stocked: Cloud, name: str) -> None:
    values, place = SERVER[name]
    refused(stocked.ask("POST", SERVERS, {"server": {**stocked.server, **values}}, headers=HEADERS), place)


@pytest.mark.parametrize("hints", [{"foo": NUL}, {NUL: "b"}, {"foo": [{"bar": NUL}]}])
def test_scheduler_hint(stocked: Cloud, hints: dict[str, Any]) -> None:
    body = {"server": stocked.server, "os:scheduler_hints": hints}
    for path in (SERVERS, f"{SERVERS}/dry-run"):
        status, document = stocked.ask("POST", path, body)
        assert (status, "$.os:scheduler_hints." in str(document), "NUL" in str(document)) == (400, True, True)


def test_actions_and_attributes_of_a_server(stocked: Cloud) -> None:
    path = f"{SERVERS}/{stocked.make_server()['id']}"
    image = {"createImage": {"name": "s", "metadata": {"k": NUL}}}
    refused(stocked.ask("POST", f"{path}/action", image), "$.createImage.metadata.k")
    refused(
        stocked.ask("POST", f"{path}/action", {"lock": {"locked_reason": NUL}}, headers=HEADERS), "$.lock.locked_reason"
    )
    refused(stocked.ask("POST", f"{path}/metadata", {"metadata": {"k": NUL}}), "$.metadata.k")
    refused(stocked.ask("PUT", f"{path}/tags/a%00b", headers=HEADERS), "tag in the path")
    assert stocked.conductor.actions == []


def test_catalogue(stocked: Cloud) -> None:
    specs = f"{FLAVORS}/{stocked.server['flavorRef']}/os-extra_specs"
    refused(stocked.ask("POST", specs, {"extra_specs": {"hw:x": NUL}}), "$.extra_specs.hw:x")
    refused(stocked.ask("POST", "/v2.1/os-keypairs", {"keypair": {"name": NUL}}), "$.keypair.name")
    server_group = {"name": NUL, "policies": ["affinity"]}
    refused(stocked.ask("POST", GROUPS, {"server_group": server_group}), "$.server_group.name")
    aggregate = {"set_metadata": {"metadata": {"k": NUL}}}
    refused(stocked.ask("POST", "/v2.1/os-aggregates/1/action", aggregate), "$.set_metadata.metadata.k")
    group = {"security_group": {"name": "g", "tenant_id": NUL}}
    assert "NUL" in str(stocked.ask("POST", "/network/v2.0/security-groups", group)[1])


def test_image(stocked: Cloud) -> None:
    refused(stocked.ask("POST", IMAGES, {"name": "i", "x": NUL}), "$.x")
    refused(stocked.ask("POST", IMAGES, {"name": "i", NUL: "x"}), r"$.a\u0000b")
    refused(stocked.ask("POST", IMAGES, {"name": "i", "tags": [NUL]}), "$.tags[0]")
    image = f"{IMAGES}/{stocked.server['imageRef']}"
    refused(stocked.ask("PUT", f"{image}/tags/a%00b"), "tag in the path")
    for media, draft in DRAFTS.items():
        for path, value in (("/x", NUL), (f"/{NUL}", "x"), ("/owner", NUL)):
            change = {"op": "add", "path": path} if draft == 10 else {"add": path}
            body = msgspec.json.encode([{**change, "value": value}])
            status, document = stocked.ask("PATCH", image, body, headers={"Content-Type": media})
            assert (status, "$[0]." in str(document), "NUL" in str(document)) == (400, True, True)


def test_words_that_look_like_the_escape_are_text(stocked: Cloud) -> None:
    """A backslash and the letters u0000 are no escape; neither are %2500."""
    new_image = stocked.make_image("i", x=r"\u0000", y=r"a\\u0000")
    assert (new_image["x"], new_image["y"]) == (r"\u0000", r"a\\u0000")
    assert [image["id"] for image in stocked.get(f"{IMAGES}?x={quote(new_image['x'])}")["images"]] == [new_image["id"]]
    assert stocked.get(f"{IMAGES}?x=%2500")["images"] == []


@pytest.mark.parametrize("prefix", APIS)
def test_path_of_every_route(stocked: Cloud, prefix: str) -> None:
    """The answer says which variable it is, where it is not the microversion or the policy that refuses."""
    columns_checked = 0
    for route in APIS[prefix]:
        if "{" in route.path:
            path = re.sub(r"\{\w+\}", "a%00b", f"{prefix}{route.path}")
            body: dict[str, str] | None = {} if route.body is not None else None
            status, document = stocked.ask(
                route.method, path, body, headers={"OpenStack-API-Version": "compute latest"}
            )
            assert status in (400, 404, 405), (route.path, document)
            columns_checked += status == 400
    assert columns_checked > 3


@pytest.mark.parametrize("path", [SERVERS, IMAGES, FLAVORS, "/network/v2.0/ports"])
def test_query_string(cloud: Cloud, path: str) -> None:
    for query, key in (("name=a%00b", "name"), ("x=1&name=%00", "name"), ("a%00b=1", r"a\u0000b"), ("a+b=%00", "a b")):
        refused(cloud.ask("GET", f"{path}?{query}"), f"query parameter {key}")
