"""The description has every route, and is what minova-manage prints."""

import json
import subprocess
import sys
from pathlib import Path

from minova.api.openapi import APIS, OCTETS, describe


def test_every_route_is_described() -> None:
    paths = describe()["paths"]
    for api in APIS:
        for route in api.routes:
            if api.version is None or route.since <= api.version <= route.until:
                assert route.method.lower() in paths[api.prefix + route.path], route.path


def test_parameters_and_bodies_come_from_structs_and_schemas() -> None:
    document = describe()
    servers = document["paths"]["/v2.1/servers"]
    assert {"name", "limit", "marker"} <= {each["name"] for each in servers["get"]["parameters"]}
    assert "$ref" in servers["post"]["requestBody"]["content"]["application/json"]["schema"]
    provider = document["paths"]["/placement/resource_providers"]["post"]
    assert provider["requestBody"]["content"]["application/json"]["schema"]["required"] == ["name"]
    assert provider["parameters"][-1]["schema"] == {"type": "string", "enum": ["placement 1.39"]}
    assert OCTETS in document["paths"]["/v2/images/{image_id}/file"]["put"]["requestBody"]["content"]
    assert document["paths"]["/"]["get"]["security"] == []
    assert servers["get"]["security"] == [{"basic": []}]


def test_statuses_that_a_handler_sets_are_described() -> None:
    paths = describe()["paths"]
    action = paths["/v2.1/servers/{server_id}/action"]["post"]["responses"]
    assert {"200", "202"} <= action.keys()
    volumes = paths["/v2.1/servers/{server_id}/os-volume_attachments"]["post"]["responses"]
    assert ("200" in volumes, "501" in volumes) == (False, True)


def test_references_are_there() -> None:
    document = describe()
    names = {part.partition('"')[0] for part in json.dumps(document).split("#/components/schemas/")[1:]}
    assert names <= document["components"]["schemas"].keys()


def test_minova_manage_prints_it() -> None:
    command = [str(Path(sys.executable).parent / "minova-manage"), "openapi"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(json.dumps(describe()))
