"""At microversion 2.1 answers have the fields that Nova's schemas allow there; minova's own clients ask for all."""

from typing import Any

import pytest

from tests.functional.api.compute.test_flavors_and_hosts import service
from tests.functional.api.conftest import ALL_FIELDS, Cloud, at

FLAVOR = {
    "id", "name", "links", "ram", "disk", "vcpus", "swap", "rxtx_factor",
    "OS-FLV-EXT-DATA:ephemeral", "OS-FLV-DISABLED:disabled", "os-flavor-access:is_public",
}  # fmt: skip
GROUP = {"id", "name", "policies", "metadata", "members"}
SERVICE = {"id", "binary", "host", "zone", "status", "state", "updated_at", "disabled_reason"}
LATER_QUOTAS = {"server_groups", "server_group_members"}


def test_flavors_have_no_extra_specs(cloud: Cloud) -> None:
    flavor = cloud.make_flavor(extra_specs={"a": "b"})
    detail = cloud.get("/v2.1/flavors/detail")["flavors"][0]
    shown = cloud.get(f"/v2.1/flavors/{flavor['id']}")["flavor"]
    assert {*flavor} == {*detail} == {*shown} == FLAVOR
    assert cloud.get(f"/v2.1/flavors/{flavor['id']}", **ALL_FIELDS)["flavor"]["extra_specs"] == {"a": "b"}


def test_server_groups_have_no_policy_and_no_owner(cloud: Cloud) -> None:
    body = {"server_group": {"name": "g", "policies": ["affinity"]}}
    server_group = cloud.ask("POST", "/v2.1/os-server-groups", body)[1]["server_group"]
    listed = cloud.get("/v2.1/os-server-groups")["server_groups"][0]
    assert {*server_group} == {*listed} == GROUP
    everything = cloud.get(f"/v2.1/os-server-groups/{server_group['id']}", **ALL_FIELDS)["server_group"]
    assert {*everything} - GROUP == {"policy", "rules", "project_id", "user_id"}


def test_services_have_novas_names_and_are_not_said_to_be_forced_down(cloud: Cloud) -> None:
    cloud.conductor.add(service(1, "h1", forced_down=True))
    (shown,) = cloud.get("/v2.1/os-services?binary=nova-compute")["services"]
    assert ({*shown}, shown["binary"]) == (SERVICE, "nova-compute")
    (shown,) = cloud.get("/v2.1/os-services", **ALL_FIELDS)["services"]
    assert {*shown} - SERVICE == {"forced_down", "in_doubt"}
    assert (shown["binary"], shown["forced_down"]) == ("minova-compute", True)
    switched = cloud.ask("PUT", "/v2.1/os-services/enable", {"host": "h1", "binary": "minova-compute"})[1]
    assert switched["service"]["binary"] == "nova-compute"


def test_an_option_keeps_the_names_of_the_processes(cloud: Cloud) -> None:
    cloud.conf.set_override("nova_service_names", False, group="api")
    cloud.conductor.add(service(1, "h1"))
    assert cloud.get("/v2.1/os-services")["services"][0]["binary"] == "minova-compute"
    zone = cloud.get("/v2.1/os-availability-zone/detail")["availabilityZoneInfo"][0]
    assert [*zone["hosts"]["h1"]] == ["minova-compute"]


def test_classes_of_quotas_have_no_server_groups(cloud: Cloud) -> None:
    path = "/v2.1/os-quota-class-sets/default"
    assert not LATER_QUOTAS & cloud.get(path)["quota_class_set"].keys()
    changed = cloud.ask("PUT", path, {"quota_class_set": {"cores": 5}})[1]["quota_class_set"]
    assert not LATER_QUOTAS & changed.keys()
    assert cloud.get(path, **ALL_FIELDS)["quota_class_set"].keys() >= LATER_QUOTAS


IN_WORDS = [("no", False), ("Off", False), ("0", False), ("yes", True), ("ON", True), ("1", True), ("TRUE", True)]


@pytest.mark.parametrize(("word", "meaning"), IN_WORDS)
def test_booleans_may_be_words(stocked: Cloud, word: str, meaning: bool) -> None:
    assert (
        stocked.make_flavor("public", **{"os-flavor-access:is_public": word})["os-flavor-access:is_public"] is meaning
    )
    assert ("reservation_id" in stocked.make_server(return_reservation_id=word)) is meaning
    stocked.conductor.add(service(1, "h1"))
    body = {"host": "h1", "binary": "nova-compute", "forced_down": word}
    answer = stocked.ask("PUT", "/v2.1/os-services/force-down", body, **at("2.11"))[1]
    assert answer["service"]["forced_down"] is meaning
    assert stocked.ask("PUT", "/v2.1/os-quota-sets/p", {"quota_set": {"cores": 5, "force": word}})[0] == 200
    assert stocked.ask("PUT", "/v2.1/os-quota-sets/p", {"quota_set": {"cores": 5, "force": "perhaps"}})[0] == 400


def test_a_config_drive_that_is_not_wanted_may_be_a_word(stocked: Cloud) -> None:
    stocked.make_server(config_drive="no")
    assert stocked.ask("POST", "/v2.1/servers", {"server": {**stocked.server, "config_drive": "perhaps"}})[0] == 400


REFUSED: list[dict[str, Any]] = [
    {"availability_zone": ""},
    {"networks": "none"},
    {"networks": "auto"},
    {"imageRef": "http://localhost/v2/images/4a4a4a4a-4a4a-4a4a-4a4a-4a4a4a4a4a4a"},
    {"imageRef": "guest"},
    {"block_device_mapping": [{"volume_id": "4a4a4a4a-4a4a-4a4a-4a4a-4a4a4a4a4a4a", "device_name": "vda"}]},
    {"block_device_mapping_v2": [{"source_type": "volume", "destination_type": "volume", "boot_index": 0}]},
]


@pytest.mark.parametrize("more", REFUSED)
def test_what_nova_refuses_for_a_new_server_is_refused(stocked: Cloud, more: dict[str, Any]) -> None:
    status, answer = stocked.ask("POST", "/v2.1/servers", {"server": {**stocked.server, **more}})
    assert (status, next(iter(more)) in answer["badRequest"]["message"]) == (400, True), answer
    assert stocked.get("/v2.1/servers")["servers"] == []


def test_a_server_has_no_volumes_and_gets_none(stocked: Cloud) -> None:
    path = f"/v2.1/servers/{stocked.make_server()['id']}/os-volume_attachments"
    assert stocked.get(path) == {"volumeAttachments": []}
    for method, each in (
        ("POST", path),
        ("GET", f"{path}/v"),
        ("PUT", f"{path}/v"),
        ("DELETE", f"{path}/v"),
    ):
        status, answer = stocked.ask(method, each)
        assert (status, "no volume service" in answer["notImplemented"]["message"]) == (501, True)
    assert stocked.ask("GET", "/v2.1/servers/4a4a4a4a-4a4a-4a4a-4a4a-4a4a4a4a4a4a/os-volume_attachments")[0] == 404


def test_an_action_on_a_missing_server_is_404_even_if_it_is_not_served(stocked: Cloud) -> None:
    for server, status in (("4a4a4a4a-4a4a-4a4a-4a4a-4a4a4a4a4a4a", 404), (stocked.make_server()["id"], 400)):
        assert stocked.ask("POST", f"/v2.1/servers/{server}/action", {"levitate": None})[0] == status


def test_private_flavors_are_listed_only_by_those_who_may_and_ask(cloud: Cloud) -> None:
    cloud.make_flavor("shown")
    cloud.make_flavor("hidden", **{"os-flavor-access:is_public": False})

    def names(query: str) -> list[str]:
        return [flavor["name"] for flavor in cloud.get(f"/v2.1/flavors{query}")["flavors"]]

    assert names("?is_public=no") == ["hidden"]
    assert sorted(names("?is_public=None")) == ["hidden", "shown"]
    status, answer = cloud.ask("GET", "/v2.1/flavors?is_public=banana")
    assert (status, answer["badRequest"]["message"]) == (400, "Invalid is_public filter [banana]")


def test_flavors_are_sorted_by_age(cloud: Cloud) -> None:
    flavor_ids = [cloud.make_flavor(name, id=name)["id"] for name in ("c", "a", "b")]
    for key in ("created_at", "id", "updated_at", "vcpu_weight"):
        page = cloud.get(f"/v2.1/flavors?sort_key={key}&sort_dir=desc")
        assert [flavor["id"] for flavor in page["flavors"]] == flavor_ids[::-1]
    for key in ("flavorid", "name", "description", "disabled", "is_public", "rxtx_factor", "ephemeral_gb"):
        page = cloud.get(f"/v2.1/flavors?sort_key={key}")
        assert [flavor["id"] for flavor in page["flavors"]] == ["a", "b", "c"], key
    assert cloud.ask("GET", "/v2.1/flavors?sort_key=password")[0] == 400


def test_identity_says_its_version_and_the_root_lists_computes(cloud: Cloud) -> None:
    version = cloud.get("/v3")["version"]
    assert (version["id"], version["status"], version["links"][0]["href"]) == (
        "v3.14",
        "stable",
        "http://localhost/v3/",
    )
    first, second = cloud.get("/")["versions"]
    assert (first["id"], first["status"], first["version"]) == ("v2.0", "SUPPORTED", "")
    assert (second["id"], second["status"]) == ("v2.1", "CURRENT")
    for each in (first, second):
        (link,) = each["links"]
        shown = cloud.get(link["href"].removeprefix("http://localhost"))["version"]
        assert (shown["id"], shown["links"][0]) == (each["id"], link)


def hrefs(shown: Any) -> list[str]:
    return [link["href"] for link in shown["links"]]


def test_links_have_the_project_id_of_a_path_that_has_one(stocked: Cloud) -> None:
    server_id = stocked.make_server()["id"]
    server = stocked.get(f"/v2.1/admin/servers/{server_id}")["server"]
    assert hrefs(server) == [
        f"http://localhost/v2.1/admin/servers/{server_id}",
        f"http://localhost/admin/servers/{server_id}",
    ]
    assert hrefs(server["flavor"])[0].startswith("http://localhost/admin/flavors/")
    assert hrefs(stocked.get(f"/v2.1/servers/{server_id}")["server"])[0] == f"http://localhost/v2.1/servers/{server_id}"
    status, made_by_path = stocked.ask("POST", "/v2.1/admin/servers", {"server": stocked.server})
    assert (status, hrefs(made_by_path["server"])[0].startswith("http://localhost/v2.1/admin/servers/")) == (202, True)
    stocked.make_server()
    page = stocked.get("/v2.1/admin/servers", params={"limit": 1})
    assert page["servers_links"][0]["href"].startswith("http://localhost/v2.1/admin/servers?limit=1&marker=")
