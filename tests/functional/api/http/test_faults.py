"""Errors, headers and identity: what every answer has, whatever was asked."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from sqlalchemy.exc import OperationalError

from minova import errors
from tests.functional.api.conftest import Cloud

PATHS: list[tuple[str, str, int, str]] = [
    ("GET", "/v2.1/nothing", 404, "itemNotFound"),
    ("GET", "/nothing", 404, "itemNotFound"),
    ("GET", "/v2.1/servers/x/y/z", 404, "itemNotFound"),
    ("GET", "/v2.1/servers/x", 404, "itemNotFound"),
    ("GET", f"/v2.1/servers/{'x' * 300}", 404, "itemNotFound"),
    # The resource with an empty name is not all of them.
    ("GET", "/v2.1/servers/", 404, "itemNotFound"),
    ("GET", "/v2.1/os-simple-tenant-usage/", 404, "itemNotFound"),
    ("POST", "/v2.1/p1/servers/", 404, "itemNotFound"),
    ("GET", "/v2.1/flavors/x%00y", 400, "badRequest"),
    ("PUT", "/v2.1/servers", 405, "badMethod"),
    ("PATCH", "/v2.1/flavors/1", 405, "badMethod"),
    ("GET", "/v2.1/servers/x/action", 405, "badMethod"),
]


@pytest.mark.parametrize(("method", "path", "status", "name"), PATHS)
def test_compute_errors_have_novas_form(cloud: Cloud, method: str, path: str, status: int, name: str) -> None:
    answered, document = cloud.ask(method, path)
    assert answered == status
    assert set(document) == {name}
    assert document[name]["code"] == status
    assert document[name]["message"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/nothing", 404),
        ("GET", "/v2/images/x", 404),
        ("DELETE", "/v2/images", 405),
        ("GET", "/image/v2/x", 404),
    ],
)
def test_image_errors_have_their_own_form(cloud: Cloud, method: str, path: str, status: int) -> None:
    answered, document = cloud.ask(method, path)
    assert answered == status
    assert set(document) == {"code", "title", "message"}
    assert document["code"].startswith(f"{status} ")


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"", {}, 400),
        (b"[]", {}, 400),
        (b'{"flavor": {"name": "\xff\xfe"}}', {}, 400),
        (b"[" * 50000, {}, 400),
        (b'{"flavor": ' + b" " * 200000 + b"{}}", {}, 413),
        (b"{}", {"Content-Type": "text/xml"}, 415),
        (b"{}", {"Content-Type": "text/plain"}, 400),
        (b"{}", {"Content-Type": ""}, 400),
        (b"{}", {"Content-Type": "text/plain", "Origin": "http://a.example"}, 403),
        (b"{}", {"Content-Type": "application/json; charset=utf-8"}, 400),
    ],
)
def test_a_body_that_cannot_be_read(cloud: Cloud, body: bytes, headers: dict[str, str], status: int) -> None:
    answered, document = cloud.ask(
        "POST", "/v2.1/flavors", body, headers={"Content-Type": "application/json", **headers}
    )
    assert answered == status
    (fault,) = document.values()
    assert (fault["code"], bool(fault["message"])) == (status, True)


def test_every_answer_has_a_request_id_and_its_version(cloud: Cloud) -> None:
    for path in ("/v2.1/servers", "/v2.1/nothing", "/"):
        headers = cloud.client.simulate_get(path).headers
        assert headers["x-openstack-request-id"].startswith("req-")
        assert headers["x-compute-request-id"] == headers["x-openstack-request-id"]
        assert headers["OpenStack-API-Version"] == "compute 2.1"
        assert headers["X-OpenStack-Nova-API-Version"] == "2.1"
        assert headers["Vary"] == "OpenStack-API-Version, X-OpenStack-Nova-API-Version, X-Minova-Fields"
    image = cloud.client.simulate_get("/v2/images").headers
    assert "x-openstack-request-id" in image
    assert "OpenStack-API-Version" not in image


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"OpenStack-API-Version": "compute 2.1"}, 200),
        ({"OpenStack-API-Version": "compute "}, 200),
        ({"OpenStack-API-Version": "compute"}, 200),
        ({"OpenStack-API-Version": "compute latest"}, 200),
        ({"X-OpenStack-Nova-API-Version": "2.1"}, 200),
        ({"OpenStack-API-Version": "volume 3.50"}, 200),
        ({"OpenStack-API-Version": "compute 2.90"}, 200),
        ({"X-OpenStack-Nova-API-Version": "2.90"}, 200),
        ({"OpenStack-API-Version": "compute 2.105"}, 406),
        ({"X-OpenStack-Nova-API-Version": "2.105"}, 406),
        ({"OpenStack-API-Version": "compute 3.0"}, 406),
        ({"OpenStack-API-Version": "compute two"}, 400),
    ],
)
def test_microversions(cloud: Cloud, headers: dict[str, str], status: int) -> None:
    answered, document = cloud.ask("GET", "/v2.1/servers", headers=headers)
    assert answered == status
    if status == 406:
        fault = document["computeFault"]
        assert fault["code"] == 406
        assert "is not supported by the API. Minimum is 2.1 and maximum is 2.104." in fault["message"]


@pytest.mark.parametrize(("wanted", "answered"), [("2.1", "2.1"), ("2.47", "2.47"), ("latest", "2.104")])
@pytest.mark.parametrize("header", ["OpenStack-API-Version", "X-OpenStack-Nova-API-Version"])
def test_both_headers_name_the_version_that_was_served(cloud: Cloud, header: str, wanted: str, answered: str) -> None:
    value = f"compute {wanted}" if header == "OpenStack-API-Version" else wanted
    headers = cloud.client.simulate_get("/v2.1/servers", headers={header: value}).headers
    assert headers["OpenStack-API-Version"] == f"compute {answered}"
    assert headers["X-OpenStack-Nova-API-Version"] == answered
    assert headers["Vary"] == "OpenStack-API-Version, X-OpenStack-Nova-API-Version, X-Minova-Fields"


def test_version_documents(cloud: Cloud) -> None:
    *_, version = cloud.get("/")["versions"]
    assert (version["id"], version["min_version"], version["version"]) == ("v2.1", "2.1", "2.104")
    for path in ("/v2.1", "/v2.1/"):
        assert cloud.get(path)["version"]["id"] == "v2.1"
    for path in ("/v2", "/v2/", "/image", "/image/"):
        status, document = cloud.ask("GET", path)
        assert (status, document["versions"][0]["status"]) == (300, "CURRENT")
        assert document["versions"][0]["links"][0]["href"].endswith("/v2/")


# -- when others fail ----------------------------------------------------------------------------------------------------


def test_an_unexpected_error_shows_its_request_id_and_nothing_else(
    stocked: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(method: str) -> None:
        raise RuntimeError("the secret is 42")

    stocked.conductor.before = fail
    with caplog.at_level(logging.ERROR):
        result = stocked.client.simulate_post("/v2.1/servers", json={"server": stocked.server})
    assert result.status_code == 500
    assert "secret" not in result.text
    assert result.headers["x-openstack-request-id"] in result.json["computeFault"]["message"]
    assert "the secret is 42" in caplog.text


def test_a_database_that_is_gone_is_503(cloud: Cloud) -> None:
    def gone(*_: Any) -> None:
        raise OperationalError("SELECT 1", {}, Exception("server closed the connection, password=x"))

    from sqlalchemy import event  # noqa: PLC0415

    event.listen(cloud.readonly.engine, "before_cursor_execute", gone)
    result = cloud.client.simulate_get("/v2.1/servers")
    assert result.status_code == 503
    assert "password" not in result.text
    assert result.headers["Retry-After"]


@pytest.mark.parametrize(
    ("error", "status", "name"),
    [
        (errors.Conflict("taken"), 409, "conflictingRequest"),
        (errors.Forbidden("no"), 403, "forbidden"),
        (errors.NotFound("gone"), 404, "itemNotFound"),
        (errors.BadRequest("what?"), 400, "badRequest"),
        (errors.ServiceUnavailable("busy"), 503, "serviceUnavailable"),
        (errors.NoValidHost("internal"), 500, "computeFault"),
    ],
)
def test_what_the_conductor_raises(stocked: Cloud, error: Exception, status: int, name: str) -> None:
    def fail(method: str) -> None:
        raise error

    stocked.conductor.before = fail
    answered, document = stocked.ask("POST", "/v2.1/servers", {"server": stocked.server})
    assert answered == status
    assert document[name]["code"] == status


# -- who asks ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Cloud]:
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    file = tmp_path / "htpasswd"
    file.write_text("".join(f"{user}:{hashed}\n" for user in ("admin", "alice", "bob")))
    cloud = Cloud(
        tmp_path, auth_strategy="http_basic", http_basic_auth_user_file=str(file), osapi_compute_listen="0.0.0.0"
    )
    yield cloud
    cloud.close()


def as_user(user: str, password: str = "secret") -> dict[str, Any]:
    from tests.unit.api.access.test_auth import basic  # noqa: PLC0415

    return {"headers": {"Authorization": basic(f"{user}:{password}".encode())}}


def test_without_credentials_there_is_a_challenge(guarded: Cloud) -> None:
    for more in ({}, as_user("alice", "wrong"), as_user("mallory"), {"headers": {"X-Auth-Token": "admin"}}):
        result = guarded.client.simulate_get("/v2.1/servers", **more)
        assert result.status_code == 401
        assert result.headers["WWW-Authenticate"].startswith("Basic ")
        assert result.json["unauthorized"]["code"] == 401
    assert guarded.client.simulate_get("/v2/images").json["title"] == "Unauthorized"
    assert guarded.get("/")["versions"]
    assert guarded.get("/v2.1/")["version"]


def test_a_user_sees_the_own_project_and_changes_no_catalogue(guarded: Cloud) -> None:
    flavor = {"flavor": {"name": "f", "ram": 1, "vcpus": 1, "disk": 1, "os-flavor-access:is_public": False}}
    status, created = guarded.ask("POST", "/v2.1/flavors", flavor, **as_user("admin"))
    assert status == 200
    alice = as_user("alice")
    forbidden: list[tuple[str, str, Any]] = [
        ("POST", "/v2.1/flavors", flavor),
        ("GET", "/v2.1/os-services", None),
        ("GET", "/v2.1/os-hypervisors/detail", None),
        ("GET", "/v2.1/os-hypervisors/audits", None),
        ("GET", "/v2.1/os-hypervisors/1/overview", None),
        ("POST", "/v2.1/os-hypervisors/1/action", {"audit": None}),
        ("PUT", "/v2.1/os-services/disable", {"host": "h", "binary": "b"}),
        ("GET", "/v2.1/servers?all_tenants=1", None),
        ("GET", "/v2.1/os-aggregates", None),
        ("POST", "/v2.1/os-aggregates", {"aggregate": {"name": "a"}}),
        ("GET", "/v2.1/os-aggregates/1", None),
        ("PUT", "/v2.1/os-aggregates/1", {"aggregate": {"name": "a"}}),
        ("DELETE", "/v2.1/os-aggregates/1", None),
        ("POST", "/v2.1/os-aggregates/1/action", {"add_host": {"host": "h"}}),
        ("GET", "/v2.1/os-availability-zone/detail", None),
        ("POST", "/v2.1/flavors/1/os-extra_specs", {"extra_specs": {}}),
        ("PUT", "/v2.1/flavors/1/os-extra_specs/a", {"a": "b"}),
        ("DELETE", "/v2.1/flavors/1/os-extra_specs/a", None),
        ("POST", "/v2/images", {"name": "i", "visibility": "public"}),
        ("POST", "/v2/images", {"name": "i", "owner": "bob"}),
    ]
    for method, path, body in forbidden:
        assert guarded.ask(method, path, body, **alice)[0] == 403, path
    assert guarded.ask("GET", f"/v2.1/flavors/{created['flavor']['id']}", **alice)[0] == 404
    assert guarded.get("/v2.1/flavors?is_public=None", **alice)["flavors"] == []


def test_servers_and_images_of_others_do_not_exist(guarded: Cloud) -> None:
    alice, bob, admin = as_user("alice"), as_user("bob"), as_user("admin")
    flavor = {"flavor": {"name": "f", "id": "1", "ram": 1, "vcpus": 1, "disk": 1}}
    guarded.ask("POST", "/v2.1/flavors", flavor, **admin)
    _, image = guarded.ask("POST", "/v2/images", {"disk_format": "raw", "container_format": "bare"}, **alice)
    headers = {"Content-Type": "application/octet-stream", **alice["headers"]}
    assert guarded.ask("PUT", f"/v2/images/{image['id']}/file", b"x" * 512, headers=headers)[0] == 204
    body = {"server": {"name": "vm", "flavorRef": "1", "imageRef": image["id"]}}
    assert guarded.ask("POST", "/v2.1/servers", body, **bob)[0] == 400
    zone = {"server": {**body["server"], "availability_zone": "nova:host"}}
    assert guarded.ask("POST", "/v2.1/servers", zone, **alice)[0] == 403
    status, created = guarded.ask("POST", "/v2.1/servers", body, **alice)
    assert status == 202
    path = f"/v2.1/servers/{created['server']['id']}"
    mine = guarded.get(path, **alice)["server"]
    assert not any(key.startswith("OS-EXT-SRV-ATTR") for key in mine)
    assert "OS-EXT-SRV-ATTR:host" in guarded.get(path, **admin)["server"]
    for method, other in (("GET", path), ("DELETE", path), ("GET", f"/v2/images/{image['id']}")):
        assert guarded.ask(method, other, **bob)[0] == 404
    assert guarded.ask("GET", "/v2/images", **bob)[1]["images"] == []
    assert guarded.ask("POST", f"{path}/action", {"os-getConsoleOutput": {}}, **bob)[0] == 404


def test_server_groups_of_others_are_not_to_be_used(guarded: Cloud) -> None:
    alice, bob, admin = as_user("alice"), as_user("bob"), as_user("admin")
    group_body = {"server_group": {"name": "g", "policies": ["affinity"]}}
    group = guarded.ask("POST", "/v2.1/os-server-groups", group_body, **alice)[1]["server_group"]
    path = f"/v2.1/os-server-groups/{group['id']}"
    for method in ("GET", "DELETE"):
        assert guarded.ask(method, path, **bob)[0] == 404
    assert guarded.get("/v2.1/os-server-groups?all_projects=1", **bob)["server_groups"] == []
    assert guarded.get("/v2.1/os-server-groups?all_projects=1", **admin)["server_groups"] == [group]
    assert guarded.get("/v2.1/os-availability-zone", **bob) == {"availabilityZoneInfo": []}
    flavor = {"flavor": {"name": "f", "id": "1", "ram": 1, "vcpus": 1, "disk": 1}}
    guarded.ask("POST", "/v2.1/flavors", flavor, **admin)
    _, image = guarded.ask("POST", "/v2/images", {"disk_format": "raw", "container_format": "bare"}, **bob)
    headers = {"Content-Type": "application/octet-stream", **bob["headers"]}
    guarded.ask("PUT", f"/v2/images/{image['id']}/file", b"x" * 512, headers=headers)
    body = {"server": {"name": "vm", "flavorRef": "1", "imageRef": image["id"]}}
    status, answer = guarded.ask("POST", "/v2.1/servers", body | {"os:scheduler_hints": {"group": group["id"]}}, **bob)
    assert (status, "could not be found" in answer["badRequest"]["message"]) == (400, True)
    assert guarded.ask("DELETE", path, **admin)[0] == 204


def test_noauth_is_refused_on_an_address_that_others_reach(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidConfiguration, match="osapi_compute_listen"):
        Cloud(tmp_path, osapi_compute_listen="0.0.0.0")
