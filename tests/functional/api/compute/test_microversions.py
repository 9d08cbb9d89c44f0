"""What each microversion of Compute adds, changes and takes away, resource by resource."""

from typing import Any

import pytest

from minova.api.compute.versions import MAX
from minova.objects.hosts.numa import InstanceNUMACell, InstanceNUMATopology
from tests.functional.api.compute.test_flavors_and_hosts import node, service
from tests.functional.api.conftest import Cloud, at
from tests.unit.api.compute.test_public_keys import ED25519

NEWEST = f"{MAX[0]}.{MAX[1]}"
SERVERS = "/v2.1/servers"
# (the last version without it, the first one with it, field of a server, whether users see it, too)
FIELDS = [
    ("2.2", "2.3", "OS-EXT-SRV-ATTR:user_data"),
    ("2.2", "2.3", "OS-EXT-SRV-ATTR:hostname"),
    ("2.8", "2.9", "locked"),
    ("2.15", "2.16", "host_status"),
    ("2.18", "2.19", "description"),
    ("2.25", "2.26", "tags"),
    ("2.62", "2.63", "trusted_image_certificates"),
    ("2.70", "2.71", "server_groups"),
    ("2.72", "2.73", "locked_reason"),
    ("2.95", "2.96", "pinned_availability_zone"),
    ("2.99", "2.100", "scheduler_hints"),
]


@pytest.fixture
def server(stocked: Cloud) -> str:
    server_id = stocked.make_server()["id"]
    stocked.conductor.edit(server_id, host="h1", node="n1", vm_state="active", task_state=None, power_state=1)
    stocked.conductor.add(service(1, "h1"))
    return f"{SERVERS}/{server_id}"


@pytest.mark.parametrize(("before", "since", "field"), FIELDS)
def test_a_server_has_a_field_from_its_version_on(
    stocked: Cloud, server: str, before: str, since: str, field: str
) -> None:
    assert field not in stocked.get(server, **at(before))["server"]
    assert field in stocked.get(server, **at(since))["server"]
    assert field in stocked.get(server, **at(NEWEST))["server"]
    in_list = stocked.get(f"{SERVERS}/detail", **at(since))["servers"][0]
    assert (field in in_list) is (field != "server_groups")
    changed = stocked.ask("PUT", server, {"server": {"name": "n"}}, **at(NEWEST))[1]["server"]
    assert field in changed


def test_an_update_answers_less_before_2_75(stocked: Cloud, server: str) -> None:
    whole = {*stocked.get(server, **at("2.74"))["server"]}
    less = {*stocked.ask("PUT", server, {"server": {"name": "n"}}, **at("2.74"))[1]["server"]}
    assert whole - less == {
        "OS-EXT-AZ:availability_zone", "config_drive", "key_name", "OS-SRV-USG:launched_at", "OS-SRV-USG:terminated_at",
        "OS-EXT-STS:task_state", "OS-EXT-STS:vm_state", "OS-EXT-STS:power_state", "os-extended-volumes:volumes_attached",
        "OS-EXT-SRV-ATTR:host", "OS-EXT-SRV-ATTR:hypervisor_hostname", "OS-EXT-SRV-ATTR:instance_name",
        "OS-EXT-SRV-ATTR:hostname", "OS-EXT-SRV-ATTR:reservation_id", "OS-EXT-SRV-ATTR:launch_index",
        "OS-EXT-SRV-ATTR:kernel_id", "OS-EXT-SRV-ATTR:ramdisk_id", "OS-EXT-SRV-ATTR:root_device_name",
        "OS-EXT-SRV-ATTR:user_data", "host_status",
    }  # fmt: skip
    assert {*stocked.ask("PUT", server, {"server": {"name": "n"}}, **at("2.75"))[1]["server"]} == {
        *stocked.get(server, **at("2.75"))["server"]
    }


def test_the_flavor_is_embedded_from_2_47_on(stocked: Cloud, server: str) -> None:
    assert {*stocked.get(server, **at("2.46"))["server"]["flavor"]} == {"id", "links"}
    flavor = stocked.get(server, **at("2.47"))["server"]["flavor"]
    assert {*flavor} == {"vcpus", "ram", "disk", "ephemeral", "swap", "original_name", "extra_specs"}
    assert flavor["original_name"] == "tiny"


@pytest.mark.parametrize(
    ("disabled", "forced_down", "expected"),
    [(False, False, "UNKNOWN"), (True, False, "MAINTENANCE"), (False, True, "DOWN"), (True, True, "DOWN")],
)
def test_the_status_of_the_host(stocked: Cloud, disabled: bool, forced_down: bool, expected: str) -> None:
    server_id = stocked.make_server()["id"]
    assert stocked.get(f"{SERVERS}/{server_id}", **at("2.16"))["server"]["host_status"] == ""
    stocked.conductor.add(service(1, "h1", disabled=disabled, forced_down=forced_down))
    stocked.conductor.edit(server_id, host="h1")
    assert stocked.get(f"{SERVERS}/{server_id}", **at("2.16"))["server"]["host_status"] == expected


# (field, its value, the last version that refuses it, the first that takes it)
NEW: list[tuple[str, Any, str, str]] = [
    ("description", "what for", "2.18", "2.19"),
    ("tags", ["b", "a"], "2.51", "2.52"),
    ("host", "h1", "2.73", "2.74"),
    ("hypervisor_hostname", "h1.node", "2.73", "2.74"),
    ("hostname", "www", "2.89", "2.90"),
    ("hostname", "www.example.org", "2.93", "2.94"),
]


@pytest.mark.parametrize(("field", "value", "before", "since"), NEW)
def test_a_new_server_may_have_a_field_from_its_version_on(
    stocked: Cloud, field: str, value: Any, before: str, since: str
) -> None:
    stocked.conductor.add(service(1, "h1"), node("h1", id=1, hypervisor_hostname="h1.node"))
    body = {"server": {**stocked.server, "networks": [], field: value}}
    status, answer = stocked.ask("POST", SERVERS, body, **at(before))
    assert (status, field in answer["badRequest"]["message"]) == (400, True), answer
    status, answer = stocked.ask("POST", SERVERS, body, **at(since))
    assert status == 202, answer
    shown = stocked.get(f"{SERVERS}/{answer['server']['id']}", **at(NEWEST))["server"]
    sent = stocked.conductor.requests[-1]
    kept: dict[str, Any] = {
        "description": shown["description"],
        "tags": shown["tags"],
        "hostname": shown["OS-EXT-SRV-ATTR:hostname"],
        "host": sent.requested_host,
        "hypervisor_hostname": sent.requested_node,
    }
    assert kept[field] == (sorted(value) if field == "tags" else value)


TAGGED = {"source_type": "blank", "destination_type": "local", "boot_index": -1, "tag": "scratch"}


@pytest.mark.parametrize(
    ("version", "more", "why"),
    [
        ("2.37", {}, "'networks' is a required property"),
        ("2.36", {"networks": "none"}, "networks"),
        ("2.37", {"networks": "some"}, "networks"),
        ("2.37", {"networks": "auto"}, "Unable to automatically allocate a network for project admin"),
        ("2.31", {"networks": [{"uuid": "n", "tag": "t"}]}, "'tag' was unexpected"),
        ("2.41", {"networks": [{"uuid": "n", "tag": "t"}]}, "'tag' was unexpected"),
        ("2.42", {"networks": [{"uuid": "n", "tag": "a/b"}]}, "tag"),
        ("2.31", {"block_device_mapping_v2": [TAGGED]}, "'tag' was unexpected"),
        ("2.33", {"block_device_mapping_v2": [TAGGED]}, "'tag' was unexpected"),
        ("2.41", {"networks": "none", "block_device_mapping_v2": [TAGGED]}, "'tag' was unexpected"),
        ("2.42", {"networks": "none", "block_device_mapping_v2": [{**TAGGED, "tag": ""}]}, "1 to 60 characters"),
        ("2.57", {"networks": "none", "personality": []}, "'personality' was unexpected"),
        ("2.63", {"networks": "none", "trusted_image_certificates": ["c"]}, "Not served yet: trusted_image"),
        ("2.74", {"networks": "none", "host": "mars"}, "Compute host mars could not be found"),
        ("2.74", {"networks": "none", "host": "h1", "availability_zone": "nova:h1"}, "mutually exclusive"),
        ("2.90", {"networks": "none", "hostname": "-a"}, "hostname"),
        ("2.90", {"networks": "none", "hostname": "ab", "max_count": 2}, "single hostname to multiple"),
        ("2.52", {"networks": "none", "tags": ["a,b"]}, "tags"),
        ("2.52", {"networks": "none", "tags": [str(number) for number in range(51)]}, "tags"),
    ],
)
def test_what_a_version_refuses_for_a_new_server(stocked: Cloud, version: str, more: dict[str, Any], why: str) -> None:
    status, answer = stocked.ask("POST", SERVERS, {"server": {**stocked.server, **more}}, **at(version))
    assert (status, why in answer["badRequest"]["message"]) == (400, True), answer
    assert stocked.conductor.requests == []


@pytest.mark.parametrize("version", ["2.32", "2.42"])
def test_tags_of_disks(stocked: Cloud, version: str) -> None:
    flavor = stocked.make_flavor("big", **{"OS-FLV-EXT-DATA:ephemeral": 1})
    root = {"source_type": "image", "destination_type": "local", "boot_index": 0, "uuid": stocked.server["imageRef"]}
    server_body = {
        **stocked.server,
        "flavorRef": flavor["id"],
        "block_device_mapping_v2": [{**root, "tag": "system"}, TAGGED],
        **({"networks": "none"} if version == "2.42" else {}),
    }
    status, answer = stocked.ask("POST", SERVERS, {"server": server_body}, **at(version))
    assert status == 202, answer
    sent = stocked.conductor.requests[-1]
    assert (sent.root_disk_tag, [disk.tag for disk in sent.block_device_mapping]) == ("system", ["scratch"])


def test_servers_without_networks_are_asked_for_by_a_word(stocked: Cloud) -> None:
    body = {"server": {**stocked.server, "networks": "none"}}
    assert stocked.ask("POST", SERVERS, body, **at("2.37"))[0] == 202
    assert stocked.conductor.requests[-1].requested_networks == ()


# -- tags ----------------------------------------------------------------------------------------------------------------


def test_tags_of_a_server(stocked: Cloud, server: str) -> None:
    def ask(method: str, path: str = "", body: Any = None) -> tuple[int, Any]:
        return stocked.ask(method, f"{server}/tags{path}", body, **at("2.26"))

    assert stocked.ask("GET", f"{server}/tags", **at("2.25"))[0] == 404
    assert ask("GET") == (200, {"tags": []})
    result = stocked.client.simulate_put(f"{server}/tags/red", **at("2.26"))
    assert (result.status_code, result.headers["location"].endswith(f"{server}/tags/red")) == (201, True)
    assert ask("PUT", "/red") == (204, None)
    assert ask("GET", "/red") == (204, None)
    assert ask("GET", "/blue")[0] == ask("DELETE", "/blue")[0] == 404
    assert ask("PUT", "", {"tags": ["c", "b", "b"]}) == (200, {"tags": ["b", "c"]})
    assert stocked.get(server, **at("2.26"))["server"]["tags"] == ["b", "c"]
    assert ask("DELETE", "/b") == (204, None)
    assert ask("GET") == (200, {"tags": ["c"]})
    assert ask("DELETE") == (204, None)
    assert ask("GET") == (200, {"tags": []})
    for body in ({"tags": ["a/b"]}, {"tags": [""]}, {"tags": ["x" * 61]}, {"tags": [str(n) for n in range(51)]}, {}):
        assert ask("PUT", "", body)[0] == 400
    assert ask("PUT", "/a,b")[0] == 400
    ask("PUT", "", {"tags": [str(number) for number in range(50)]})
    status, answer = ask("PUT", "/more")
    assert (status, answer["badRequest"]["message"]) == (400, "The number of tags exceeded the per-server limit 50")
    stocked.conductor.edit(server.rpartition("/")[2], vm_state="error")
    assert ask("PUT", "/0")[0] == 409


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("tags=red", "ab"),
        ("tags=red,big", "a"),
        ("tags-any=big,old", "ac"),
        ("not-tags=red,big", "bcd"),
        ("not-tags-any=red,old", "d"),
        ("tags=red&not-tags=big", "b"),
        ("tags=Red", ""),
    ],
)
def test_servers_are_found_by_tags(stocked: Cloud, query: str, expected: str) -> None:
    for name, tags in (("a", ["red", "big"]), ("b", ["red"]), ("c", ["old"]), ("d", [])):
        body = {"server": {**stocked.server, "name": name, "networks": "none", "tags": tags}}
        assert stocked.ask("POST", SERVERS, body, **at("2.52"))[0] == 202
    servers = stocked.get(f"{SERVERS}?{query}&sort_key=display_name&sort_dir=asc", **at("2.26"))["servers"]
    assert "".join(each["name"] for each in servers) == expected
    assert len(stocked.get(f"{SERVERS}?{query}", **at("2.25"))["servers"]) == 4


# -- locks, description, host name, zone ---------------------------------------------------------------------------------


def test_a_lock_has_a_reason_from_2_73_on(stocked: Cloud, server: str) -> None:
    def ask(version: str, body: Any) -> int:
        return stocked.ask("POST", f"{server}/action", body, **at(version))[0]

    def shown() -> Any:
        server_view = stocked.get(server, **at("2.73"))["server"]
        return server_view["locked"], server_view["locked_reason"]

    assert ask("2.72", {"lock": {"locked_reason": "x"}}) == 400
    assert ask("2.72", {"lock": {}}) == 202
    assert shown() == (True, None)
    assert ask("2.73", {"unlock": None}) == 202
    assert shown() == (False, None)
    assert ask("2.73", {"lock": {"locked_reason": "under repair"}}) == 202
    assert shown() == (True, "under repair")
    stocked.make_server(name="open")
    for locked, number in (("true", 1), ("false", 1)):
        assert len(stocked.get(f"{SERVERS}?locked={locked}", **at("2.73"))["servers"]) == number
    names = [each["name"] for each in stocked.get(f"{SERVERS}?sort_key=locked", **at("2.73"))["servers"]]
    assert names == ["vm", "open"]
    for wrong in ({"locked_reason": ""}, {"locked_reason": "x" * 256}, {"why": "x"}):
        assert ask("2.73", {"lock": wrong}) == 400
    assert ask("2.73", {"unlock": None}) == 202
    assert shown() == (False, None)


def test_the_description_is_the_name_before_it_can_be_given(stocked: Cloud) -> None:
    old_server = stocked.make_server(name="old")
    server = f"{SERVERS}/{old_server['id']}"
    assert stocked.get(server, **at("2.19"))["server"]["description"] == "old"
    for text in ("new", "two\nlines", None):
        answer = stocked.ask("PUT", server, {"server": {"description": text}}, **at("2.19"))
        assert (answer[0], answer[1]["server"]["description"]) == (200, text)
    assert stocked.ask("PUT", server, {"server": {"description": "x"}}, **at("2.18"))[0] == 400
    assert stocked.ask("PUT", server, {"server": {"description": "x" * 256}}, **at("2.19"))[0] == 400


def test_the_host_name_changes(stocked: Cloud, server: str) -> None:
    def change(version: str, name: str) -> int:
        return stocked.ask("PUT", server, {"server": {"hostname": name}}, **at(version))[0]

    assert [change("2.89", "web"), change("2.90", "web"), change("2.90", "a.b"), change("2.94", "a.b")] == [
        400,
        200,
        400,
        200,
    ]
    assert stocked.get(server, **at("2.90"))["server"]["OS-EXT-SRV-ATTR:hostname"] == "a.b"


def test_a_server_is_pinned_to_its_zone_and_unpinned(stocked: Cloud, server: str) -> None:
    def pin(zone: str | None) -> tuple[int, Any]:
        return stocked.ask("PUT", server, {"server": {"pinned_availability_zone": zone}}, **at("2.104"))

    assert pin("mars")[0] == 409
    status, answer = pin("nova")
    assert (status, answer["server"]["pinned_availability_zone"]) == (200, "nova")
    assert pin("nova")[0] == 200
    assert pin("mars")[0] == 409
    assert pin(None)[1]["server"]["pinned_availability_zone"] is None
    assert stocked.ask("PUT", server, {"server": {"pinned_availability_zone": None}}, **at("2.103"))[0] == 400


# -- other parts of servers ----------------------------------------------------------------------------------------------


def test_consoles_have_a_resource_from_2_6_on(stocked: Cloud, server: str) -> None:
    stocked.consoles.texts[server.rpartition("/")[2]] = ""

    def ask(protocol: str, kind: str, version: str = "2.6") -> tuple[int, Any]:
        body = {"remote_console": {"protocol": protocol, "type": kind}}
        return stocked.ask("POST", f"{server}/remote-consoles", body, **at(version))

    assert ask("vnc", "novnc", "2.5")[0] == 404
    status, answer = ask("vnc", "novnc")
    assert (status, answer["remote_console"]["protocol"], answer["remote_console"]["type"]) == (200, "vnc", "novnc")
    assert "token" in answer["remote_console"]["url"]
    assert ask("serial", "serial")[0] == 200
    for protocol, kind, version in (
        ("vnc", "serial", "2.6"), ("mks", "webmks", "2.7"), ("mks", "webmks", "2.8"), ("tv", "novnc", "2.8"),
        ("spice", "spice-html5", "2.8"), ("spice", "spice-direct", "2.98"), ("spice", "spice-direct", "2.99"),
    ):  # fmt: skip
        assert ask(protocol, kind, version)[0] == 400
    old = {"os-getVNCConsole": {"type": "novnc"}}
    assert stocked.ask("POST", f"{server}/action", old, **at("2.5"))[0] == 200
    assert stocked.ask("POST", f"{server}/action", old, **at("2.6"))[0] == 404


def test_a_crash_dump_is_asked_for_from_2_17_on(stocked: Cloud, server: str) -> None:
    body = {"trigger_crash_dump": None}
    answers = [stocked.ask("POST", f"{server}/action", body, **at(version))[0] for version in ("2.16", "2.17")]
    assert answers == [404, 202]


def test_the_topology_of_a_guest(stocked: Cloud, server: str) -> None:
    assert stocked.ask("GET", f"{server}/topology", **at("2.77"))[0] == 404
    assert stocked.get(f"{server}/topology", **at("2.78")) == {"nodes": [], "pagesize_kb": None}
    cell = InstanceNUMACell(id=1, pcpuset=frozenset({0, 1}), memory=64, pagesize=2048, cpu_pinning=((0, 4), (1, 5)))
    stocked.conductor.edit(server.rpartition("/")[2], numa_topology=InstanceNUMATopology(cells=(cell,)))
    assert stocked.get(f"{server}/topology", **at("2.78")) == {
        "nodes": [
            {"vcpu_set": [0, 1], "siblings": [], "memory_mb": 64, "host_node": 1, "cpu_pinning": {"0": 4, "1": 5}}
        ],
        "pagesize_kb": 2048,
    }


def test_actions_of_a_server(stocked: Cloud, server: str) -> None:
    for action in ("lock", "unlock"):
        stocked.ask("POST", f"{server}/action", {action: None})
    path = f"{server}/os-instance-actions"
    assert [each["action"] for each in stocked.get(f"{path}?limit=1", **at("2.57"))["instanceActions"]] == [
        "unlock",
        "lock",
        "create",
    ]
    first = stocked.get(f"{path}?limit=1", **at("2.58"))
    assert [each["action"] for each in first["instanceActions"]] == ["unlock"]
    assert {"updated_at"} == {*first["instanceActions"][0]} - {*stocked.get(path)["instanceActions"][0]}
    href = first["links"][0]["href"].removeprefix("http://localhost")
    assert [each["action"] for each in stocked.get(href, **at("2.58"))["instanceActions"]] == ["lock"]
    assert stocked.ask("GET", f"{path}?marker=none", **at("2.58"))[0] == 400
    assert stocked.ask("GET", f"{path}?colour=red", **at("2.58"))[0] == 400
    assert stocked.ask("GET", f"{path}?changes-before=2020-01-01T00:00:00Z", **at("2.65"))[0] == 400
    assert stocked.get(f"{path}?changes-before=2020-01-01T00:00:00Z", **at("2.66")) == {"instanceActions": []}
    assert len(stocked.get(f"{path}?changes-since=2020-01-01T00:00:00Z", **at("2.58"))["instanceActions"]) == 3
    stocked.ask("DELETE", server)
    assert stocked.ask("GET", path, **at("2.20"))[0] == 404
    assert len(stocked.get(path, **at("2.21"))["instanceActions"]) == 3


def test_changes_before_and_statuses(stocked: Cloud, server: str) -> None:
    assert stocked.ask("GET", f"{SERVERS}?status=silly", **at("2.37")) == (200, {"servers": []})
    assert stocked.ask("GET", f"{SERVERS}?status=silly", **at("2.38"))[0] == 400
    past = "changes-before=2020-01-01T00:00:00Z"
    assert len(stocked.get(f"{SERVERS}?{past}", **at("2.65"))["servers"]) == 1
    assert stocked.get(f"{SERVERS}?{past}", **at("2.66"))["servers"] == []
    assert stocked.ask("GET", f"{SERVERS}?{past}&changes-since=2021-01-01T00:00:00Z", **at("2.66"))[0] == 400


# -- other resources -----------------------------------------------------------------------------------------------------

UNKNOWN = [
    ("/v2.1/servers", "2.75"), ("/v2.1/servers/detail", "2.75"), ("/v2.1/flavors", "2.75"), ("/v2.1/limits", "2.75"),
    ("/v2.1/os-keypairs", "2.75"), ("/v2.1/os-services", "2.75"), ("/v2.1/os-server-groups", "2.75"),
    ("/v2.1/os-quota-sets/admin", "2.75"), ("/v2.1/os-hypervisors", "2.53"), ("/v2.1/os-aggregates", "2.102"),
    ("/v2.1/os-availability-zone", "2.102"), ("/v2.1/os-quota-class-sets/default", "2.102"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "since"), UNKNOWN)
def test_unknown_parameters_are_refused_from_a_version_on(cloud: Cloud, path: str, since: str) -> None:
    before = f"2.{int(since.partition('.')[2]) - 1}"
    assert cloud.ask("GET", f"{path}?colour=red", **at(before))[0] == 200
    status, answer = cloud.ask("GET", f"{path}?colour=red", **at(since))
    assert (status, "'colour' was unexpected" in answer["badRequest"]["message"]) == (400, True)


def test_key_pairs(cloud: Cloud) -> None:
    body = {"keypair": {"name": "k", "public_key": ED25519}}
    assert "type" not in cloud.ask("POST", "/v2.1/os-keypairs", body)[1]["keypair"]
    status, answer = cloud.ask("POST", "/v2.1/os-keypairs", {"keypair": {**body["keypair"], "name": "l"}}, **at("2.2"))
    assert (status, answer["keypair"]["type"]) == (201, "ssh")
    assert cloud.ask("DELETE", "/v2.1/os-keypairs/l", **at("2.2"))[0] == 204
    for field, value, before in (("type", "ssh", "2.1"), ("user_id", "u", "2.9")):
        assert (
            cloud.ask("POST", "/v2.1/os-keypairs", {"keypair": {**body["keypair"], field: value}}, **at(before))[0]
            == 400
        )
    dotted = {"keypair": {**body["keypair"], "name": "a@b.c"}}
    assert cloud.ask("POST", "/v2.1/os-keypairs", dotted, **at("2.91"))[0] == 400
    assert cloud.ask("POST", "/v2.1/os-keypairs", dotted, **at("2.92"))[0] == 201
    status, answer = cloud.ask("POST", "/v2.1/os-keypairs", {"keypair": {"name": "m"}}, **at("2.92"))
    assert (status, "'public_key' is a required property" in answer["badRequest"]["message"]) == (400, True)


def test_flavors(cloud: Cloud) -> None:
    flavor = cloud.make_flavor()
    path = f"/v2.1/flavors/{flavor['id']}"

    def fields(version: str) -> set[str]:
        return {*cloud.get(path, **at(version))["flavor"]}

    assert fields("2.55") - fields("2.54") == {"description"}
    assert fields("2.61") - fields("2.60") == {"extra_specs"}
    assert fields("2.101") - fields("2.102") == {"rxtx_factor", "OS-FLV-DISABLED:disabled"}
    assert [cloud.get(path, **at(version))["flavor"]["swap"] for version in ("2.74", "2.75")] == ["", 0]
    change = {"flavor": {"description": "small"}}
    assert cloud.ask("PUT", path, change, **at("2.54"))[0] in (404, 405)
    status, answer = cloud.ask("PUT", path, change, **at("2.55"))
    assert (status, answer["flavor"]["description"]) == (200, "small")
    assert cloud.get("/v2.1/flavors", **at("2.55"))["flavors"][0]["description"] == "small"
    assert cloud.ask("PUT", "/v2.1/flavors/none", change, **at("2.55"))[0] == 404
    new = {"flavor": {"name": "f", "ram": 1, "vcpus": 1, "disk": 1, "description": "d"}}
    assert cloud.ask("POST", "/v2.1/flavors", new, **at("2.54"))[0] == 400
    assert cloud.ask("POST", "/v2.1/flavors", new, **at("2.55"))[1]["flavor"]["description"] == "d"
    assert [each["name"] for each in cloud.get("/v2.1/flavors?name=^f$", **at("2.102"))["flavors"]] == ["f"]
    assert cloud.ask("GET", "/v2.1/flavors?name=f", **at("2.101"))[0] == 400
    assert cloud.ask("GET", "/v2.1/flavors?sort_key=rxtx_factor", **at("2.102"))[0] == 400
    wide = {"flavor": {"name": "g", "ram": 1, "vcpus": 1, "disk": 1, "rxtx_factor": 2.0}}
    assert cloud.ask("POST", "/v2.1/flavors", wide, **at("2.102"))[0] == 400


def test_server_groups(cloud: Cloud) -> None:
    def make(version: str, **group: Any) -> tuple[int, Any]:
        return cloud.ask("POST", "/v2.1/os-server-groups", {"server_group": {"name": "g", **group}}, **at(version))

    assert make("2.14", policies=["soft-affinity"])[0] == 400
    status, answer = make("2.15", policies=["soft-affinity"])
    assert (status, {*answer["server_group"]}) == (
        200,
        {"id", "name", "policies", "metadata", "members", "project_id", "user_id"},
    )
    assert make("2.63", policy="affinity")[0] == make("2.64", policies=["affinity"])[0] == make("2.64")[0] == 400
    status, answer = make("2.64", policy="anti-affinity", rules={"max_server_per_host": 2})
    assert (status, {*answer["server_group"]}) == (
        200,
        {"id", "name", "policy", "rules", "members", "project_id", "user_id"},
    )


def test_services(cloud: Cloud) -> None:
    cloud.conductor.add(service(1, "h1"), service(2, "c", binary="minova-conductor", topic="conductor"))
    old = {"host": "h1", "binary": "nova-compute"}
    assert cloud.ask("PUT", "/v2.1/os-services/force-down", {**old, "forced_down": True}, **at("2.10"))[0] == 400
    assert cloud.ask("PUT", "/v2.1/os-services/disable", old, **at("2.52"))[0] == 200
    assert cloud.ask("PUT", "/v2.1/os-services/disable", {"status": "disabled"}, **at("2.53"))[0] == 400
    compute, conductor = (each["id"] for each in cloud.get("/v2.1/os-services", **at("2.53"))["services"])

    def change(uuid: str, **body: Any) -> tuple[int, Any]:
        return cloud.ask("PUT", f"/v2.1/os-services/{uuid}", body, **at("2.53"))

    status, answer = change(compute, status="disabled", disabled_reason="repair", forced_down=True)
    shown = answer["service"]
    assert (status, shown["id"], shown["status"], shown["disabled_reason"], shown["forced_down"]) == (
        200, compute, "disabled", "repair", True,
    )  # fmt: skip
    assert change(compute, status="enabled")[1]["service"]["disabled_reason"] is None
    for uuid, body in (
        (compute, {}), (compute, {"status": "enabled", "disabled_reason": "x"}), (compute, old),
        (conductor, {"status": "disabled"}), ("1", {"status": "disabled"}),
    ):  # fmt: skip
        assert change(uuid, **body)[0] == 400
    assert cloud.ask("DELETE", "/v2.1/os-services/1", **at("2.53"))[0] == 400


def test_hypervisors(stocked: Cloud, server: str) -> None:
    stocked.conductor.add(
        node("h1", id=1, hypervisor_hostname="h1.node"), node("h2", id=2, hypervisor_hostname="h2.node")
    )
    uuid = stocked.get("/v2.1/os-hypervisors", **at("2.53"))["hypervisors"][0]["id"]
    path = "/v2.1/os-hypervisors"
    assert stocked.ask("GET", f"{path}/1", **at("2.53"))[0] == 400
    assert stocked.ask("GET", f"{path}/{uuid}", **at("2.52"))[0] == 404
    shown = stocked.get(f"{path}/{uuid}", **at("2.53"))["hypervisor"]
    assert (shown["id"], shown["cpu_info"]) == (uuid, {"arch": "x86_64"})
    assert isinstance(stocked.get(f"{path}/1", **at("2.27"))["hypervisor"]["cpu_info"], str)
    newest = {*stocked.get(f"{path}/{uuid}", **at("2.88"))["hypervisor"]}
    assert newest == {
        "id", "hypervisor_hostname", "state", "status", "host_ip", "hypervisor_type", "hypervisor_version", "uptime", "service",
    }  # fmt: skip
    for gone in ("statistics", f"{uuid}/uptime"):
        assert stocked.ask("GET", f"{path}/{gone}", **at("2.88"))[0] in (400, 404)
    (on_host,) = stocked.get(f"{path}/h1/servers", **at("2.52"))["hypervisors"]
    assert [each["name"] for each in on_host["servers"]] == ["vm"]
    assert "servers" not in stocked.get(f"{path}/h2/servers", **at("2.52"))["hypervisors"][0]
    assert len(stocked.get(f"{path}/node/search", **at("2.52"))["hypervisors"]) == 2
    assert stocked.ask("GET", f"{path}/mars/search", **at("2.52"))[0] == 404
    with_servers = stocked.get(f"{path}?with_servers=true&hypervisor_hostname_pattern=h2", **at("2.75"))["hypervisors"]
    assert [each["servers"] for each in with_servers] == [[]]
    assert stocked.ask("GET", f"{path}?hypervisor_hostname_pattern=mars", **at("2.53"))[0] == 404
    assert stocked.ask("GET", f"{path}?hypervisor_hostname_pattern=h&limit=1", **at("2.53"))[0] == 400
    after = stocked.get(f"{path}?marker={uuid}", **at("2.53"))["hypervisors"]
    assert [each["hypervisor_hostname"] for each in after] == ["h2.node"]
    assert stocked.ask("GET", f"{path}?marker=1", **at("2.53"))[0] == 400


def test_aggregates_quotas_and_limits(cloud: Cloud) -> None:
    aggregate = cloud.ask("POST", "/v2.1/os-aggregates", {"aggregate": {"name": "a"}}, **at("2.41"))[1]["aggregate"]
    assert len(aggregate["uuid"]) == 36
    assert "uuid" not in cloud.get(f"/v2.1/os-aggregates/{aggregate['id']}", **at("2.40"))["aggregate"]

    def names(path: str, key: str, version: str) -> set[str]:
        return {*cloud.get(path, **at(version))[key]}

    networks = {"fixed_ips", "floating_ips", "security_groups", "security_group_rules"}
    files = {"injected_files", "injected_file_content_bytes", "injected_file_path_bytes"}
    quotas = "/v2.1/os-quota-sets/admin"
    assert names(quotas, "quota_set", "2.35") - names(quotas, "quota_set", "2.36") == networks
    assert names(quotas, "quota_set", "2.56") - names(quotas, "quota_set", "2.57") == files
    classes = "/v2.1/os-quota-class-sets/default"
    before, since = names(classes, "quota_class_set", "2.49"), names(classes, "quota_class_set", "2.50")
    assert (before - since, since - before) == (networks, {"server_groups", "server_group_members"})
    assert since - names(classes, "quota_class_set", "2.57") == files
    assert cloud.ask("PUT", quotas, {"quota_set": {"fixed_ips": 1}}, **at("2.36"))[0] == 400
    assert cloud.ask("PUT", quotas, {"quota_set": {"cores": 1, "force": True}}, **at("2.57"))[0] == 200

    def limits(version: str) -> set[str]:
        return {*cloud.get("/v2.1/limits", **at(version))["limits"]["absolute"]}

    assert limits("2.35") - limits("2.36") == {
        "maxTotalFloatingIps", "maxSecurityGroups", "maxSecurityGroupRules", "totalFloatingIpsUsed", "totalSecurityGroupsUsed",
    }  # fmt: skip
    assert limits("2.38") - limits("2.39") == {"maxImageMeta"}
    assert limits("2.56") - limits("2.57") == {"maxPersonality", "maxPersonalitySize"}


def test_minovas_own_clients_may_use_what_is_later(cloud: Cloud) -> None:
    own = {"headers": {"X-Minova-Fields": "all"}}
    body = {"server_group": {"name": "g", "policy": "soft-affinity"}}
    assert cloud.ask("POST", "/v2.1/os-server-groups", body, **own)[0] == 200
    assert cloud.ask("POST", "/v2.1/os-server-groups", body)[0] == 400
