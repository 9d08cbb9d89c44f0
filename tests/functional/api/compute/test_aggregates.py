"""Host aggregates and availability zones."""

import time
import uuid
from typing import Any

import pytest

from minova.db import models
from tests.fakes.row_conductor import now
from tests.functional.api.conftest import Cloud, at

AGGREGATES = "/v2.1/os-aggregates"
SHAPE = {"id", "name", "availability_zone", "created_at", "updated_at", "deleted", "deleted_at"}


def add_host(cloud: Cloud, host: str, *, disabled: bool = False, topic: str = "compute") -> None:
    row = models.Service(
        uuid=str(uuid.uuid4()),
        host=host,
        binary=f"minova-{topic}",
        topic=topic,
        created_at=now(),
        disabled=disabled,
    )
    cloud.conductor.add(row)
    cloud.conductor.add(models.Heartbeat(service_id=row.id, last_seen=time.time()))
    if topic == "compute":
        node = {"uuid": str(uuid.uuid4()), "host": host, "hypervisor_hostname": f"{host}-node", "created_at": now()}
        cloud.conductor.add(models.ComputeNode(**node))


def make(cloud: Cloud, name: str = "fast", *hosts: str, **more: Any) -> Any:
    status, answer = cloud.ask("POST", AGGREGATES, {"aggregate": {"name": name, **more}})
    assert status == 200, answer
    for host in hosts:
        assert act(cloud, answer["aggregate"]["id"], "add_host", host=host)[0] == 200
    return answer["aggregate"]


def act(cloud: Cloud, aggregate_id: Any, action: str, **arguments: Any) -> tuple[int, Any]:
    return cloud.ask("POST", f"{AGGREGATES}/{aggregate_id}/action", {action: arguments})


def zones(cloud: Cloud, path: str = "") -> dict[str, tuple[bool, Any]]:
    availabilityzoneinfo = cloud.get(f"/v2.1/os-availability-zone{path}")["availabilityZoneInfo"]
    return {zone["zoneName"]: (zone["zoneState"]["available"], zone["hosts"]) for zone in availabilityzoneinfo}


def test_an_aggregate_has_openstacks_shape(cloud: Cloud) -> None:
    add_host(cloud, "h1")
    aggregate = make(cloud, "fast", "h1", availability_zone="north")
    assert set(aggregate) == SHAPE
    assert (aggregate["deleted"], aggregate["deleted_at"], aggregate["updated_at"]) == (False, None, None)
    shown = cloud.get(f"{AGGREGATES}/{aggregate['id']}")["aggregate"]
    assert shown == aggregate | {"hosts": ["h1"], "metadata": {"availability_zone": "north"}}
    assert cloud.get(AGGREGATES) == {"aggregates": [shown]}


def test_name_zone_and_metadata_change_and_it_goes(cloud: Cloud) -> None:
    path = f"{AGGREGATES}/{make(cloud)['id']}"
    status, answer = cloud.ask("PUT", path, {"aggregate": {"name": "faster", "availability_zone": "north"}})
    assert (status, answer["aggregate"]["name"], answer["aggregate"]["availability_zone"]) == (200, "faster", "north")
    assert answer["aggregate"]["updated_at"]
    for metadata, after in [({"disk": "ssd", "a": "b"}, {"disk": "ssd", "a": "b"}), ({"a": None}, {"disk": "ssd"})]:
        status, answer = cloud.ask("POST", f"{path}/action", {"set_metadata": {"metadata": metadata}})
        assert (status, answer["aggregate"]["metadata"]) == (200, after | {"availability_zone": "north"})
    assert cloud.ask("DELETE", path) == (200, None)
    assert cloud.ask("GET", path)[0] == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"aggregate": {"name": "taken"}}, 409),
        ({"aggregate": {"name": ""}}, 400),
        ({"aggregate": {"name": None}}, 400),
        ({"aggregate": {"name": 1}}, 400),
        ({"aggregate": {"name": "x" * 256}}, 400),
        ({"aggregate": {"name": "a\nb"}}, 400),
        ({"aggregate": {}}, 400),
        ({"aggregate": {"name": "a", "availability_zone": ""}}, 400),
        ({"aggregate": {"name": "a", "availability_zone": "a:b"}}, 400),
        ({"aggregate": {"name": "a", "availability_zone": "x" * 256}}, 400),
        ({"aggregate": {"name": "a", "colour": "red"}}, 400),
        ({"name": "a"}, 400),
        ({}, 400),
    ],
)
def test_aggregates_that_cannot_be_made(cloud: Cloud, body: dict[str, Any], status: int) -> None:
    make(cloud, "taken")
    assert cloud.ask("POST", AGGREGATES, body)[0] == status
    assert len(cloud.get(AGGREGATES)["aggregates"]) == 1


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 400),
        ({"name": "other"}, 409),
        ({"name": " "}, 400),
        ({"name": None}, 400),
        ({"availability_zone": None}, 400),
        ({"availability_zone": ""}, 400),
        ({"availability_zone": "a:b"}, 400),
        ({"availability_zone": "south"}, 400),
        ({"id": 7}, 400),
        ({"name": "same", "availability_zone": "north"}, 200),
    ],
)
def test_changes_that_cannot_be(cloud: Cloud, changes: dict[str, Any], status: int) -> None:
    add_host(cloud, "h1")
    make(cloud, "other", "h1", availability_zone="north")
    path = f"{AGGREGATES}/{make(cloud, 'mine', 'h1', availability_zone='north')['id']}"
    assert cloud.ask("PUT", path, {"aggregate": changes})[0] == status


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"add_host": {"host": "h1"}}, 409),
        ({"add_host": {"host": "h3"}}, 409),
        ({"add_host": {"host": "nobody"}}, 404),
        ({"add_host": {"host": ""}}, 400),
        ({"add_host": {"host": "h 1"}}, 400),
        ({"add_host": {"host": None}}, 400),
        ({"add_host": {}}, 400),
        ({"add_host": None}, 400),
        ({"add_host": {"host": "h2", "x": 1}}, 400),
        ({"remove_host": {"host": "h2"}}, 404),
        ({"set_metadata": {}}, 400),
        ({"set_metadata": {"metadata": {"a/b": "c"}}}, 400),
        ({"set_metadata": {"metadata": {"a": 1}}}, 400),
        ({"set_metadata": {"metadata": {"a": "x" * 256}}}, 400),
        ({"set_metadata": {"metadata": {"availability_zone": None}}}, 400),
        ({"set_metadata": {"metadata": {"availability_zone": "a:b"}}}, 400),
        ({"fly": {}}, 400),
        ({}, 400),
        ({"add_host": {"host": "h2"}, "remove_host": {"host": "h1"}}, 400),
        ({"add_host": {"host": "h2"}}, 200),
    ],
)
def test_actions_that_cannot_be(cloud: Cloud, body: dict[str, Any], status: int) -> None:
    for host in ("h1", "h2", "h3"):
        add_host(cloud, host)
    aggregate = make(cloud, "one", "h1", availability_zone="north")
    make(cloud, "two", "h3", availability_zone="south")
    answer = cloud.ask("POST", f"{AGGREGATES}/{aggregate['id']}/action", body)
    assert answer[0] == status, answer


@pytest.mark.parametrize(("wanted", "status"), [("7", 404), ("-1", 404), ("9" * 17, 404), ("x", 400), ("1.5", 400)])
def test_ids_that_are_none(cloud: Cloud, wanted: str, status: int) -> None:
    path = f"{AGGREGATES}/{wanted}"
    assert cloud.ask("GET", path)[0] == status
    assert cloud.ask("DELETE", path)[0] == status
    assert cloud.ask("PUT", path, {"aggregate": {"name": "a"}})[0] == status
    assert act(cloud, wanted, "add_host", host="h1")[0] == status


def test_one_with_hosts_stays(cloud: Cloud) -> None:
    add_host(cloud, "h1")
    aggregate = make(cloud, "one", "h1")
    status, document = cloud.ask("DELETE", f"{AGGREGATES}/{aggregate['id']}")
    assert (status, "not empty" in document["badRequest"]["message"]) == (400, True)


def test_zones_are_those_of_hosts(cloud: Cloud) -> None:
    for host in ("h1", "h2", "h3"):
        add_host(cloud, host, disabled=host == "h3")
    add_host(cloud, "c1", topic="conductor")
    make(cloud, "one", "h1", availability_zone="north")
    make(cloud, "two", "h3", availability_zone="south")
    make(cloud, "empty", availability_zone="west")
    assert zones(cloud) == {"north": (True, None), "nova": (True, None), "south": (False, None)}
    detail = zones(cloud, "/detail")
    assert {name: available for name, (available, _) in detail.items()} == {
        "internal": True, "north": True, "nova": True, "south": False,
    }  # fmt: skip
    (service,) = detail["north"][1]["h1"].items()
    assert service[0] == "nova-compute"
    assert (service[1]["available"], service[1]["active"]) == (True, True)
    assert [*detail["internal"][1]] == ["c1"]
    shown = {service["host"]: service["zone"] for service in cloud.get("/v2.1/os-services")["services"]}
    assert shown == {"h1": "north", "h2": "nova", "h3": "south", "c1": "internal"}


def test_servers_are_asked_for_in_zones_with_enabled_hosts(stocked: Cloud) -> None:
    for host in ("h1", "h2", "h3"):
        add_host(stocked, host, disabled=host == "h3")
    make(stocked, "one", "h1", availability_zone="north")
    make(stocked, "two", "h3", availability_zone="south")
    make(stocked, "empty", availability_zone="west")
    for zone, status in (("north", 202), ("nova", 202), ("south", 400), ("west", 400), ("mars", 400)):
        body = {"server": stocked.server | {"availability_zone": zone}}
        assert (zone, stocked.ask("POST", "/v2.1/servers", body)[0]) == (zone, status)


def test_a_server_is_in_the_zone_of_its_host(stocked: Cloud) -> None:
    add_host(stocked, "h1")
    add_host(stocked, "h2")
    make(stocked, "one", "h1", availability_zone="north")
    ids = [stocked.make_server(name)["id"] for name in "ab"]
    for server_id, host in zip(ids, ("h1", "h2"), strict=True):
        stocked.conductor.edit(server_id, host=host)
    waiting = stocked.make_server("c", availability_zone="north")["id"]
    server_by_id = {server["id"]: server for server in stocked.get("/v2.1/servers/detail")["servers"]}
    shown = [server_by_id[uuid_of_server]["OS-EXT-AZ:availability_zone"] for uuid_of_server in (*ids, waiting)]
    assert shown == ["north", "nova", "north"]
    listed = {
        zone: {server["name"] for server in stocked.get(f"/v2.1/servers?availability_zone={zone}")["servers"]}
        for zone in ("north", "nova", "south")
    }
    assert listed == {"north": {"a", "c"}, "nova": {"b"}, "south": set()}


def cache(cloud: Cloud, aggregate_id: object, *image_ids: str, version: str = "2.81") -> tuple[int, Any]:
    body = {"cache": [{"id": image_id} for image_id in image_ids]}
    return cloud.ask("POST", f"{AGGREGATES}/{aggregate_id}/images", body, **at(version))


def test_images_are_cached_from_2_81_on(cloud: Cloud) -> None:
    add_host(cloud, "h1")
    aggregate, image = make(cloud, "fast", "h1"), cloud.make_image()
    assert cache(cloud, aggregate["id"], image["id"]) == (202, None)
    assert cache(cloud, aggregate["id"], image["id"], version="2.80")[0] == 404


def test_requests_to_cache_images_are_refused_as_in_nova(cloud: Cloud) -> None:
    aggregate, image, unknown = make(cloud), cloud.make_image()["id"], str(uuid.uuid4())

    def refused(status: int, text: str, aggregate_id: object, *image_ids: str) -> None:
        answered, document = cache(cloud, aggregate_id, *image_ids)
        assert (answered, text in str(document)) == (status, True), document

    refused(404, "Aggregate 77 could not be found.", 77, image)
    refused(400, "Duplicate images in request", aggregate["id"], image, image)
    refused(400, f"Image {unknown} could not be found.", aggregate["id"], unknown)
    refused(400, "not a 'uuid'", aggregate["id"], "debian")
    refused(400, "cache", aggregate["id"])
    path = f"{AGGREGATES}/{aggregate['id']}/images"
    bodies: list[Any] = [{}, {"cache": [{}]}, {"cache": [{"id": image, "x": 1}]}, {"cache": [{"id": image}], "x": 1}]
    for body in bodies:
        assert cloud.ask("POST", path, body, **at("2.81"))[0] == 400
