"""A page in a browser on this host reaches loopback, and must not reach a service that asks for no password."""

from pathlib import Path
from typing import Any

import falcon.testing
import pytest

from tests.functional.api.conftest import Cloud
from tests.functional.api.placement.conftest import PlacementCloud

FLAVOR = b'{"flavor": {"name": "f", "ram": 64, "vcpus": 1, "disk": 1}}'
FLAVORS, IMAGES = "/v2.1/flavors", "/v2/images"


def ask(cloud: Cloud, method: str, path: str, body: bytes | None = None, **headers: str) -> int:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    result = falcon.testing.TestClient(cloud.app).simulate_request(method, path, body=body, headers=sent)
    return int(result.status_code)


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8774", "127.0.0.1:8774", "127.3.4.5", "[::1]:8774", "LocalHost."]
)
def test_loopback_names_are_served(cloud: Cloud, host: str) -> None:
    assert ask(cloud, "GET", FLAVORS, Host=host) == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example.com", "evil.example.com:8774", "localhost.evil.example.com", "192.0.2.1", "[::2]", "", "[", "a@b:c"],
)
def test_other_host_names_are_403(cloud: Cloud, host: str) -> None:
    """DNS rebinding: the page's own host name has the address 127.0.0.1."""
    for path in (FLAVORS, IMAGES, "/v2.1/servers"):
        assert ask(cloud, "GET", path, Host=host) == 403
    assert ask(cloud, "POST", FLAVORS, FLAVOR, Host=host, Content_Type="application/json") == 403


@pytest.mark.parametrize(
    "origin", ["https://evil.example.com", "null", "http://localhost:3000", "https://localhost", "", "x"]
)
def test_pages_of_other_origins_are_403(cloud: Cloud, origin: str) -> None:
    assert ask(cloud, "GET", FLAVORS, Host="localhost", Origin=origin) == 403
    assert ask(cloud, "POST", FLAVORS, FLAVOR, Host="localhost", Origin=origin, Content_Type="application/json") == 403
    assert ask(cloud, "DELETE", f"{FLAVORS}/x", Host="localhost", Origin=origin) == 403


def test_own_origin_is_served(cloud: Cloud) -> None:
    assert ask(cloud, "GET", FLAVORS, Host="localhost", Origin="http://localhost") == 200
    assert ask(cloud, "GET", FLAVORS, Host="localhost:8774", Origin="http://localhost:8774") == 200


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp"]
)
def test_what_pages_may_send_without_asking_changes_nothing(cloud: Cloud, kind: str) -> None:
    """Programs may leave out the Content-Type of JSON, as in Nova. Pages name their origin."""
    more = {"Content_Type": kind} if kind else {}
    page = {"Origin": "https://evil.example.com", **more}
    assert ask(cloud, "POST", FLAVORS, FLAVOR, Host="localhost", **page) == 403
    image = cloud.make_image(data=None)
    assert ask(cloud, "PUT", f"{IMAGES}/{image['id']}/file", b"x" * 512, Host="localhost", **page) == 403
    assert ask(cloud, "PUT", f"{IMAGES}/{image['id']}/file", b"x" * 512, Host="localhost", **more) == 415
    expected = 200 if kind in {"", "text/plain"} else 415
    assert ask(cloud, "POST", FLAVORS, FLAVOR, Host="localhost", **more) == expected


def test_placement_is_held_to_the_same(folder: Path) -> None:
    placement = PlacementCloud(folder)
    body: Any = {"name": "p"}
    assert placement.ask("POST", "/resource_providers", body, Host="evil.example.com").status == 403
    assert placement.ask("POST", "/resource_providers", body, Origin="https://evil.example.com").status == 403
    assert placement.ask("POST", "/resource_providers", body, Content_Type="text/plain").status == 415
    assert placement.ask("POST", "/resource_providers", body).status == 200
    placement.close()


def test_only_trusted_proxies_say_how_the_service_is_addressed(cloud: Cloud) -> None:
    forged = {
        "Host": "localhost",
        "X-Forwarded-Host": "evil.example.com",
        "Forwarded": "host=evil.example.com;proto=https",
    }
    client = falcon.testing.TestClient(cloud.app)
    for peer in ("192.0.2.9", "127.0.0.1"):
        for path in ("/", "/v2.1", "/image"):
            answer = client.simulate_get(path, headers=forged, remote_addr=peer)
            assert "evil" not in answer.text
            assert "http://localhost/" in answer.text


def test_trusted_proxy_says_how_the_service_is_addressed(tmp_path: Path) -> None:
    cloud = Cloud(tmp_path, trusted_proxies=["192.0.2.0/24"])
    sent = {"X-Forwarded-Host": "cloud.example.com", "X-Forwarded-Proto": "https", "Forwarded": "host=evil.example.com"}
    client = falcon.testing.TestClient(cloud.app, headers={"Host": "localhost", **sent})
    assert "https://cloud.example.com/v2.1/" in client.simulate_get("/", remote_addr="192.0.2.1").text
    assert "http://localhost/v2.1/" in client.simulate_get("/", remote_addr="198.51.100.1").text
    cloud.close()
