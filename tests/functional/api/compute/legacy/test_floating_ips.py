"""Floating addresses of the Compute API, until 2.35."""

from tests.functional.api.conftest import Cloud, at


def test_lists_of_floating_addresses_are_empty(cloud: Cloud) -> None:
    assert cloud.get("/v2.1/os-floating-ips", **at("2.35")) == {"floating_ips": []}
    assert cloud.get("/v2.1/os-floating-ip-pools", **at("2.35")) == {"floating_ip_pools": []}
    status, answer = cloud.ask("GET", "/v2.1/os-floating-ips/7")
    assert (status, answer["itemNotFound"]["message"]) == (404, "Floating IP not found for ID 7")
    for path in ("os-floating-ips", "os-floating-ip-pools", "os-floating-ips/7"):
        assert cloud.ask("GET", f"/v2.1/{path}", **at("2.36"))[0] == 404
