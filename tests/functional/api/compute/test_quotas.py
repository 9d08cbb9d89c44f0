"""Quota sets, quota classes and limits, in Nova's form; and what a quota refuses."""

from typing import Any

import pytest

from minova.context import RequestContext
from tests import limits
from tests.functional.api.conftest import ALL_FIELDS, Cloud

CTX = RequestContext(request_id="req-1", user_id="admin", project_id="admin")
SETS, CLASS, LIMITS = "/v2.1/os-quota-sets", "/v2.1/os-quota-class-sets/default", "/v2.1/limits"
# Nova's defaults and keys before microversion 2.36.
NOVA = {
    "cores": 20,
    "fixed_ips": -1,
    "floating_ips": -1,
    "injected_file_content_bytes": 10240,
    "injected_file_path_bytes": 255,
    "injected_files": 5,
    "instances": 10,
    "key_pairs": 100,
    "metadata_items": 128,
    "ram": 51200,
    "security_group_rules": -1,
    "security_groups": -1,
    "server_group_members": 10,
    "server_groups": 10,
}

# At microversion 2.1; server groups are there since 2.50.
OF_CLASS = {name: limit for name, limit in NOVA.items() if not name.startswith("server_group")}


@pytest.fixture
def site(stocked: Cloud) -> Cloud:
    """With the limits of operators."""
    for name, limit in limits.DEFAULTS.items():
        stocked.conf.set_override(name, limit, group="quota")
    return stocked


def change(site: Cloud, status: int = 200, project: str = "admin", **limits: Any) -> Any:
    answered, document = site.ask("PUT", f"{SETS}/{project}", {"quota_set": limits})
    assert answered == status, document
    return document


NEUTRON = {
    "networks": 100,
    "subnets": 100,
    "ports": 500,
    "security_group": 10,
    "security_group_rule": 100,
    # Neutron limits neither: here no project fills the database with them.
    "address_group": 100,
    "subnetpool": 100,
}


def test_options_have_novas_and_neutrons_defaults() -> None:
    names = {"injected_file_path_length": "injected_file_path_bytes"}
    own = {names.get(name, name): limit for name, limit in limits.DEFAULTS.items() if limit != -1}
    assert own == {name: limit for name, limit in NOVA.items() if limit != -1} | NEUTRON


def test_quota_set_has_novas_form(site: Cloud) -> None:
    assert site.get(f"{SETS}/demo") == {"quota_set": {"id": "demo", **NOVA}}
    assert site.get(f"{SETS}/demo/defaults") == {"quota_set": {"id": "demo", **NOVA}}
    assert site.get(CLASS) == {"quota_class_set": {"id": "default", **OF_CLASS}}


def test_changed_limits_are_the_projects_own_until_they_are_deleted(site: Cloud) -> None:
    assert change(site, project="demo", instances=3, cores="-1") == {"quota_set": NOVA | {"instances": 3, "cores": -1}}
    assert site.get(f"{SETS}/demo")["quota_set"]["instances"] == 3
    assert site.get(f"{SETS}/other")["quota_set"]["instances"] == 10
    assert site.get(f"{SETS}/demo/defaults")["quota_set"]["instances"] == 10
    assert site.ask("DELETE", f"{SETS}/demo") == (202, None)
    assert site.get(f"{SETS}/demo") == {"quota_set": {"id": "demo", **NOVA}}


def test_default_class_replaces_the_options(site: Cloud) -> None:
    status, document = site.ask("PUT", CLASS, {"quota_class_set": {"ram": 7}})
    assert (status, document) == (200, {"quota_class_set": OF_CLASS | {"ram": 7}})
    for path in (f"{SETS}/demo", f"{SETS}/demo/defaults"):
        assert site.get(path)["quota_set"]["ram"] == 7
    change(site, project="demo", ram=8)
    assert site.get(f"{SETS}/demo")["quota_set"]["ram"] == 8


def test_detail_shows_what_is_used(site: Cloud) -> None:
    assert (
        site.ask("POST", "/v2.1/os-server-groups", {"server_group": {"name": "g", "policies": ["affinity"]}})[0] == 200
    )
    site.make_server()
    quota_set = site.get(f"{SETS}/admin/detail")["quota_set"]
    assert quota_set.pop("id") == "admin"
    assert {name: row["limit"] for name, row in quota_set.items()} == NOVA
    assert quota_set["instances"] == {"in_use": 1, "limit": 10, "reserved": 0}
    assert {name: row["in_use"] for name, row in quota_set.items() if row["in_use"]} == {
        "instances": 1,
        "cores": 1,
        "ram": 128,
        "server_groups": 1,
    }


def test_limits_have_novas_form(site: Cloud) -> None:
    site.make_server()
    assert site.get(LIMITS) == {
        "limits": {
            "rate": [],
            "absolute": {
                "maxServerMeta": 128,
                "maxImageMeta": 128,
                "maxPersonality": 5,
                "maxPersonalitySize": 10240,
                "maxTotalInstances": 10,
                "maxTotalCores": 20,
                "maxTotalRAMSize": 51200,
                "maxTotalKeypairs": 100,
                "maxTotalFloatingIps": -1,
                "maxSecurityGroups": -1,
                "maxSecurityGroupRules": -1,
                "maxServerGroups": 10,
                "maxServerGroupMembers": 10,
                "totalInstancesUsed": 1,
                "totalCoresUsed": 1,
                "totalRAMUsed": 128,
                "totalServerGroupsUsed": 0,
                "totalFloatingIpsUsed": 0,
                "totalSecurityGroupsUsed": 0,
            },
        }
    }
    assert site.get(f"{LIMITS}?tenant_id=other")["limits"]["absolute"]["totalInstancesUsed"] == 0


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"quota_set": {"instances": -2}},
        {"quota_set": {"instances": 2**31}},
        {"quota_set": {"instances": "9999999999"}},
        {"quota_set": {"instances": "many"}},
        {"quota_set": {"instances": None}},
        {"quota_set": {"instances": 1.5}},
        {"quota_set": {"volumes": 3}},
        {"quota_set": {"force": "perhaps"}},
        {"quota_class_set": {"instances": 3}},
    ],
)
def test_malformed_limits_are_refused(site: Cloud, body: Any) -> None:
    assert site.ask("PUT", f"{SETS}/demo", body)[0] == 400
    assert site.get(f"{SETS}/demo") == {"quota_set": {"id": "demo", **NOVA}}


def test_user_has_the_limits_of_the_project_and_no_others(site: Cloud) -> None:
    assert site.get(f"{SETS}/demo?user_id=alice") == site.get(f"{SETS}/demo")
    assert site.get(f"{SETS}/demo/detail?user_id=alice") == site.get(f"{SETS}/demo/detail")
    for method in ("PUT", "DELETE"):
        body: Any = {"quota_set": {}} if method == "PUT" else None
        status, document = site.ask(method, f"{SETS}/demo?user_id=alice", body)
        assert (status, "Quotas of users are not served" in str(document)) == (400, True)


def test_limit_below_what_is_used_takes_force(site: Cloud) -> None:
    site.make_server()
    message = "Quota limit 0 for instances must be greater than or equal to already used and reserved 1."
    assert change(site, 400, instances=0) == {"badRequest": {"code": 400, "message": message}}
    assert change(site, instances=0, force=True)["quota_set"]["instances"] == 0


def test_metadata_items_are_limited_by_the_quota(site: Cloud) -> None:
    change(site, metadata_items=1)
    status, document = site.ask("POST", "/v2.1/servers", {"server": site.server | {"metadata": {"a": "1", "b": "2"}}})
    assert (status, document["forbidden"]["message"]) == (403, "Maximum number of metadata items exceeds 1.")
    change(site, metadata_items=-1)
    site.make_server(metadata={str(number): "x" for number in range(200)})


def test_image_quotas_are_shown_where_they_are_set(site: Cloud) -> None:
    assert change(site, project="demo", image_count_total=5)["quota_set"] == NOVA
    assert site.get(f"{SETS}/demo")["quota_set"] == {"id": "demo", **NOVA}
    assert site.get(f"{SETS}/demo", **ALL_FIELDS)["quota_set"]["image_count_total"] == 5


def test_images_beyond_the_quota_are_refused(site: Cloud) -> None:
    change(site, image_count_total=1)
    status, document = site.ask("POST", "/v2/images", {"name": "i"})
    assert status == 403
    assert "Quota exceeded for image_count_total: Requested 1, but already used 1 of 1" in document["message"]
    # The image of the fixture takes a MB.
    change(site, image_count_total=-1, image_size_total=1)
    image = site.make_image(data=None)
    status, document = site.upload(image["id"], b"\0" * 1024)
    assert (status, "Quota exceeded for image_size_total" in str(document)) == (403, True)
    assert site.get(f"/v2/images/{image['id']}")["status"] == "queued"
    assert [file.name for file in site.images.iterdir() if file.name.startswith(image["id"])] == []


def test_quota_that_another_upload_uses_up_meanwhile_leaves_no_bytes(site: Cloud) -> None:
    image = site.make_image(data=None)
    site.conductor.before = lambda method: (
        site.conductor.update_quota_set(CTX, project_id="admin", limits={"image_size_total": 1}, force=True)
        if method == "change_image"
        else None
    )
    assert site.upload(image["id"], b"\0" * 1024)[0] == 403
    assert [file.name for file in site.images.iterdir() if file.name.startswith(image["id"])] == []
    site.conductor.before = lambda _: None
    change(site, image_size_total=2)
    assert site.upload(image["id"], b"\0" * 1024)[0] == 204
