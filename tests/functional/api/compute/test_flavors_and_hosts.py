"""Flavors, hypervisors and services."""

import threading
import time
import uuid
from datetime import datetime
from typing import Any
from urllib.parse import quote

import pytest

from minova import errors
from minova.api.compute.hosts import uptimes
from minova.db import models
from minova.objects.catalogue.flavor import Flavor
from tests.functional.api.conftest import ALL_FIELDS, UPTIME, Cloud, at

AT = datetime(2026, 1, 1)  # noqa: DTZ001


def test_a_flavor_has_openstacks_shape(cloud: Cloud) -> None:
    flavor = cloud.make_flavor("tiny", swap=512, extra_specs={"hw:cpu_policy": "shared"})
    assert cloud.get(f"/v2.1/flavors/{flavor['id']}") == {"flavor": flavor}
    flavor.pop("links")
    assert flavor == {
        "id": flavor["id"],
        "name": "tiny",
        "ram": 128,
        "disk": 1,
        "vcpus": 1,
        "swap": 512,
        "OS-FLV-EXT-DATA:ephemeral": 0,
        "OS-FLV-DISABLED:disabled": False,
        "os-flavor-access:is_public": True,
        "rxtx_factor": 1.0,
    }
    assert cloud.get(f"/v2.1/flavors/{flavor['id']}/os-extra_specs") == {"extra_specs": {"hw:cpu_policy": "shared"}}
    assert cloud.make_flavor("no-swap", id=7)["swap"] == ""
    assert cloud.get("/v2.1/flavors/7")["flavor"]["name"] == "no-swap"


def test_extra_spec_that_nova_refuses_is_refused_from_its_microversion(cloud: Cloud) -> None:
    body = {"extra_specs": {"quota:cpu_shares": "many"}}
    path = f"/v2.1/flavors/{cloud.make_flavor()['id']}/os-extra_specs"
    status, answer = cloud.ask("POST", path, body, **ALL_FIELDS)
    assert status == 400
    assert "Flavor extra spec quota:cpu_shares: 'many' is not valid" in answer["badRequest"]["message"]
    assert cloud.ask("PUT", f"{path}/quota:cpu_shares", {"quota:cpu_shares": "many"}, **ALL_FIELDS)[0] == 400
    new = {"flavor": {"name": "f", "ram": 1, "vcpus": 1, "disk": 1, **body}}
    assert cloud.ask("POST", "/v2.1/flavors", new, **ALL_FIELDS)[0] == 400
    assert cloud.ask("POST", path, body)[0] == 200


def test_extra_specs_are_set_shown_and_unset(cloud: Cloud) -> None:
    flavor_id = cloud.make_flavor(extra_specs={"a": "1"})["id"]
    path = f"/v2.1/flavors/{flavor_id}/os-extra_specs"
    body = {"extra_specs": {"hw:numa_nodes": 2, "b": "5", "c": 1.5}}
    assert cloud.ask("POST", path, body) == (200, body)
    assert cloud.get(path) == {"extra_specs": {"a": "1", "hw:numa_nodes": "2", "b": "5", "c": "1.5"}}
    assert cloud.ask("PUT", f"{path}/a", {"a": "x"}) == (200, {"a": "x"})
    assert cloud.get(f"{path}/a") == {"a": "x"}
    assert cloud.get(f"{path}/hw:numa_nodes") == {"hw:numa_nodes": "2"}
    assert cloud.ask("DELETE", f"{path}/a") == (200, None)
    assert cloud.get(f"/v2.1/flavors/{flavor_id}", **ALL_FIELDS)["flavor"]["extra_specs"] == {
        "hw:numa_nodes": "2",
        "b": "5",
        "c": "1.5",
    }


@pytest.mark.parametrize(
    ("method", "key", "body", "status"),
    [
        ("POST", "", {"extra_specs": {"a/b": "c"}}, 400),
        ("POST", "", {"extra_specs": {"a": "x" * 256}}, 400),
        ("POST", "", {"extra_specs": {"a": None}}, 400),
        ("POST", "", {"extra_specs": {"a": True}}, 400),
        ("POST", "", {"extra_specs": {"": "b"}}, 400),
        ("POST", "", {}, 400),
        ("PUT", "/a", {"b": "c"}, 400),
        ("PUT", "/a", {"a": "b", "c": "d"}, 400),
        ("PUT", "/a", {}, 400),
        ("GET", "/b", None, 404),
        ("DELETE", "/b", None, 404),
    ],
)
def test_extra_specs_that_cannot_be(cloud: Cloud, method: str, key: str, body: Any, status: int) -> None:
    flavor_id = cloud.make_flavor(extra_specs={"a": "1"})["id"]
    assert cloud.ask(method, f"/v2.1/flavors/{flavor_id}/os-extra_specs{key}", body)[0] == status
    assert cloud.get(f"/v2.1/flavors/{flavor_id}/os-extra_specs") == {"extra_specs": {"a": "1"}}
    assert cloud.ask(method, f"/v2.1/flavors/nine/os-extra_specs{key}", body)[0] in (400, 404)


@pytest.mark.parametrize(
    "more",
    [
        {"ram": 0},
        {"ram": -1},
        {"ram": 2**31},
        {"ram": "much"},
        {"ram": 1.5},
        {"vcpus": 0},
        {"vcpus": -4},
        {"disk": -1},
        {"swap": -1},
        {"OS-FLV-EXT-DATA:ephemeral": -1},
        {"rxtx_factor": 0},
        {"rxtx_factor": "NaN"},
        {"name": ""},
        {"name": "x" * 256},
        {"name": "a\nb"},
        {"id": "a/b"},
        {"id": "x" * 256},
        {"colour": "red"},
        {"extra_specs": {"a/b": "c"}},
        {"extra_specs": {"a": 1}},
    ],
)
def test_a_flavor_that_cannot_be_is_refused(cloud: Cloud, more: dict[str, Any]) -> None:
    flavor = {"name": "f", "ram": 1, "vcpus": 1, "disk": 0, **more}
    status, document = cloud.ask("POST", "/v2.1/flavors", {"flavor": flavor})
    assert (status, document["badRequest"]["code"]) == (400, 400)
    assert cloud.get("/v2.1/flavors")["flavors"] == []


def test_a_taken_name_is_a_conflict_and_a_deleted_flavor_gone(cloud: Cloud) -> None:
    flavor = cloud.make_flavor()
    status, document = cloud.ask("POST", "/v2.1/flavors", {"flavor": {"name": "tiny", "ram": 1, "vcpus": 1, "disk": 1}})
    assert (status, document["conflictingRequest"]["code"]) == (409, 409)
    assert cloud.ask("DELETE", f"/v2.1/flavors/{flavor['id']}") == (202, None)
    for method in ("GET", "DELETE"):
        assert cloud.ask(method, f"/v2.1/flavors/{flavor['id']}")[0] == 404


def test_flavors_are_listed_by_pages_and_filters(cloud: Cloud) -> None:
    for number in range(4):
        cloud.make_flavor(f"f{number}", id=str(number), ram=100 * (number + 1))
    cloud.make_flavor("hidden", **{"id": "9", "os-flavor-access:is_public": False})

    def names(query: str) -> list[str]:
        return [flavor["name"] for flavor in cloud.get(f"/v2.1/flavors/detail{query}")["flavors"]]

    assert names("") == ["f0", "f1", "f2", "f3"]
    assert names("?is_public=None") == ["f0", "f1", "f2", "f3", "hidden"]
    assert names("?is_public=false") == ["hidden"]
    assert names("?minRam=250") == ["f2", "f3"]
    assert names("?limit=2&marker=1") == ["f2", "f3"]
    assert names("?sort_key=memory_mb&sort_dir=desc&limit=1") == ["f3"]
    assert cloud.ask("GET", "/v2.1/flavors?marker=none")[0] == 400


# -- services and hypervisors --------------------------------------------------------------------------------------------


def service(number: int, host: str, **more: Any) -> models.Service:
    kinds = {"binary": "minova-compute", "topic": "compute"}
    return models.Service(id=number, uuid=str(uuid.uuid4()), host=host, created_at=AT, **{**kinds, **more})


def node(host: str, **more: Any) -> models.ComputeNode:
    size = {"vcpus": 8, "memory_mb": 1000, "local_gb": 10, "vcpus_used": 1, "cpu_info": '{"arch":"x86_64"}'}
    kind = {"hypervisor_type": "QEMU", "hypervisor_version": 7002000}
    own = {"uuid": str(uuid.uuid4()), "host": host, "hypervisor_hostname": f"{host}.node", "created_at": AT}
    return models.ComputeNode(**{**own, **size, **kind, **more})


@pytest.fixture
def hosts(cloud: Cloud) -> Cloud:
    """One up, one disabled, one silent, one that has never been heard of, one that cannot work, one forced down."""
    now = time.time()
    cloud.conductor.add(
        service(1, "up"),
        service(2, "disabled", disabled=True, disabled_reason="being mended"),
        service(3, "silent"),
        service(4, "unheard"),
        service(5, "broken", down_reason="libvirtd is gone"),
        service(6, "forced", forced_down=True),
        service(7, "controller", binary="minova-conductor", topic="conductor"),
    )
    seen = {1: now, 2: now, 3: now - 3600, 5: now, 6: now, 7: now}
    cloud.conductor.add(*(models.Heartbeat(service_id=key, last_seen=at) for key, at in seen.items()))
    cloud.conductor.add(*(node(host) for host in ("up", "disabled", "silent")))
    return cloud


def test_services_are_listed_with_their_state(hosts: Cloud) -> None:
    services = {service["host"]: service for service in hosts.get("/v2.1/os-services")["services"]}
    assert {host: service_view["state"] for host, service_view in services.items()} == {
        "up": "up",
        "disabled": "up",
        "silent": "down",
        "unheard": "down",
        "broken": "down",
        "forced": "down",
        "controller": "up",
    }
    assert services["disabled"]["status"] == "disabled"
    assert services["disabled"]["disabled_reason"] == "being mended"
    assert services["broken"]["disabled_reason"] == "libvirtd is gone"
    assert services["unheard"]["updated_at"] is None
    assert datetime.fromisoformat(services["up"]["updated_at"])
    assert (services["up"]["zone"], services["controller"]["zone"]) == ("nova", "internal")
    assert [service["id"] for service in hosts.get("/v2.1/os-services?binary=nova-conductor")["services"]] == [7]
    assert [service["id"] for service in hosts.get("/v2.1/os-services?host=up")["services"]] == [1]


def test_services_that_fell_silent_together_are_in_doubt(cloud: Cloud) -> None:
    now = time.time()
    computes = range(1, 21)
    cloud.conductor.add(service(99, "controller", binary="minova-conductor", topic="conductor"))
    cloud.conductor.add(*(service(number, f"h{number}") for number in computes))
    cloud.conductor.add(models.Heartbeat(service_id=99, last_seen=now))
    cloud.conductor.add(*(models.Heartbeat(service_id=number, last_seen=now - 90) for number in computes))
    services = cloud.get("/v2.1/os-services", **ALL_FIELDS)["services"]
    shown = {(service["binary"], service["state"], service["in_doubt"]) for service in services}
    assert shown == {("minova-conductor", "up", False), ("minova-compute", "up", True)}


def test_a_service_is_switched_off_and_on(hosts: Cloud) -> None:
    named = {"host": "up", "binary": "nova-compute"}

    def switch(action: str, **more: Any) -> Any:
        status, document = hosts.ask("PUT", f"/v2.1/os-services/{action}", {**named, **more}, **at("2.11"))
        assert status == 200, document
        return hosts.get("/v2.1/os-services?host=up")["services"][0]

    shown = switch("disable-log-reason", disabled_reason="mending")
    assert (shown["status"], shown["disabled_reason"]) == ("disabled", "mending")
    shown = switch("enable")
    assert (shown["status"], shown["disabled_reason"]) == ("enabled", None)
    assert switch("disable")["status"] == "disabled"
    assert switch("force-down", forced_down=True)["state"] == "down"


@pytest.mark.parametrize(
    ("action", "more", "status"),
    [
        ("explode", {}, 404),
        ("disable", {"host": "mars"}, 404),
        ("disable", {"binary": "minova-scheduler"}, 404),
        ("disable-log-reason", {}, 400),
        ("disable-log-reason", {"disabled_reason": "x" * 256}, 400),
        ("force-down", {}, 400),
        ("disable", {"colour": "red"}, 400),
    ],
)
def test_a_switch_that_there_is_not(hosts: Cloud, action: str, more: dict[str, Any], status: int) -> None:
    body = {"host": "up", "binary": "minova-compute", **more}
    assert hosts.ask("PUT", f"/v2.1/os-services/{action}", body, **at("2.11"))[0] == status


def test_service_is_deleted_with_its_hypervisor(hosts: Cloud) -> None:
    status, _ = hosts.ask("DELETE", "/v2.1/os-services/3")
    assert status == 204
    assert 3 not in [service["id"] for service in hosts.get("/v2.1/os-services")["services"]]
    names = [hypervisor["hypervisor_hostname"] for hypervisor in hosts.get("/v2.1/os-hypervisors")["hypervisors"]]
    assert names == ["up.node", "disabled.node"]
    assert hosts.ask("DELETE", "/v2.1/os-services/3")[0] == 404


@pytest.mark.parametrize(
    ("service_id", "status", "words"),
    [
        ("99", 404, "Service 99 not found."),
        ("99999999999", 404, "not found"),
        ("up", 400, "must be an integer"),
        ("\u0663", 400, "must be an integer"),
    ],
)
def test_service_that_cannot_be_deleted(hosts: Cloud, service_id: str, status: int, words: str) -> None:
    answered_status, document = hosts.ask("DELETE", f"/v2.1/os-services/{quote(service_id)}")
    assert (answered_status, words in str(document)) == (status, True)


def test_hypervisors_have_openstacks_shape(hosts: Cloud) -> None:
    brief = hosts.get("/v2.1/os-hypervisors")["hypervisors"]
    assert [(hypervisor["hypervisor_hostname"], hypervisor["state"], hypervisor["status"]) for hypervisor in brief] == [
        ("up.node", "up", "enabled"),
        ("disabled.node", "up", "disabled"),
        ("silent.node", "down", "enabled"),
    ]
    shown = hosts.get(f"/v2.1/os-hypervisors/{brief[1]['id']}")["hypervisor"]
    assert shown == hosts.get("/v2.1/os-hypervisors/detail")["hypervisors"][1]
    assert shown["service"] == {"host": "disabled", "id": 2, "disabled_reason": "being mended"}
    assert (shown["vcpus"], shown["cpu_info"], shown["hypervisor_version"]) == (8, '{"arch":"x86_64"}', 7002000)


def test_hosts_say_how_long_they_have_been_up(hosts: Cloud) -> None:
    up, _, down = hosts.get("/v2.1/os-hypervisors")["hypervisors"]
    path = "/v2.1/os-hypervisors/{}/uptime"
    assert hosts.get(path.format(up["id"]))["hypervisor"] == up | {"uptime": UPTIME}
    status, refused = hosts.ask("GET", path.format(down["id"]))
    assert (status, refused["badRequest"]["message"]) == (400, "Compute service of silent is unavailable at this time.")
    hosts.consoles.uptimes["up"] = errors.PeerTooOld("The service is of an older release")
    assert hosts.ask("GET", path.format(up["id"]))[0] == 501


def test_newer_answers_have_the_uptime_of_hosts_that_answer(hosts: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    def shown() -> list[str | None]:
        return [
            hypervisor["uptime"] for hypervisor in hosts.get("/v2.1/os-hypervisors/detail", **at("2.88"))["hypervisors"]
        ]

    assert shown() == [UPTIME, UPTIME, None]
    hosts.consoles.uptimes["up"] = errors.PeerTooOld("The service is of an older release")
    assert shown() == [None, UPTIME, None]
    ended = threading.Event()

    monkeypatch.setattr(uptimes, "PATIENCE", 0.05)
    monkeypatch.setattr(uptimes, "_ask", lambda *_: ended.wait(60))
    assert shown() == [None, None, None]
    ended.set()


@pytest.mark.parametrize("wanted", ["99", "up.node", "-1", "9" * 40, "٣"])
def test_a_hypervisor_that_there_is_not(hosts: Cloud, wanted: str) -> None:
    assert hosts.ask("GET", f"/v2.1/os-hypervisors/{wanted}")[0] == 404
    assert hosts.ask("GET", f"/v2.1/os-hypervisors/{wanted}/uptime")[0] == 404


def test_hypervisors_are_paged_only_for_those_who_ask(hosts: Cloud) -> None:
    assert len(hosts.get("/v2.1/os-hypervisors?limit=2")["hypervisors"]) == 3
    first = hosts.get("/v2.1/os-hypervisors?limit=2", **at("2.33"))
    assert len(first["hypervisors"]) == 2
    href = first["hypervisors_links"][0]["href"].removeprefix("http://localhost")
    assert [hypervisor["hypervisor_hostname"] for hypervisor in hosts.get(href, **at("2.33"))["hypervisors"]] == [
        "silent.node"
    ]
    assert hosts.ask("GET", "/v2.1/os-hypervisors?marker=x", **at("2.33"))[0] == 400


def test_statistics_count_the_enabled(hosts: Cloud) -> None:
    hypervisor_statistics = hosts.get("/v2.1/os-hypervisors/statistics")["hypervisor_statistics"]
    assert (
        hypervisor_statistics["count"],
        hypervisor_statistics["vcpus"],
        hypervisor_statistics["memory_mb"],
        hypervisor_statistics["vcpus_used"],
    ) == (2, 16, 2000, 2)


def test_old_flavor_rows_are_read_with_defaults(cloud: Cloud) -> None:
    flavor = Flavor(flavorid="1", name="f", vcpus=1, memory_mb=1, root_gb=1)
    cloud.conductor.add(models.Flavor(flavorid="1", name="f", value=flavor, created_at=AT))
    assert cloud.get("/v2.1/flavors/1", **ALL_FIELDS)["flavor"]["extra_specs"] == {}
