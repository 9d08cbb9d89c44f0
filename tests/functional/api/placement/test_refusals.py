"""What bad input gets: status, code for programs, and words that name what is wrong."""

from typing import Any

import pytest

from tests.functional.api.placement.conftest import PlacementCloud, holding
from tests.functional.scheduler.cloud import named

A, B, OTHER = named("a"), named("b"), named("other")
ONE, NEW, NOBODY = named("one"), named("new"), named("nobody")
RP = f"/resource_providers/{A}"
UNDEFINED, CONCURRENT = "placement.undefined_code", "placement.concurrent_update"

# Shallow enough to be read, too deep to be compared with a schema or shown.
NESTED = '{"name": ' + "[" * 900 + "]" * 900 + "}"

# (method, path, body, status, code, words)
PROVIDERS: list[tuple[str, str, Any, int, str, list[str]]] = [
    ("POST", "/resource_providers", {"name": "a"}, 409, "placement.duplicate_name", ["name: a already exists"]),
    ("POST", "/resource_providers", {"name": "x", "uuid": A}, 409, "placement.duplicate_name", [f"uuid: {A}"]),
    ("POST", "/resource_providers", {"name": "x", "colour": "red"}, 400, UNDEFINED, ["'colour' was unexpected"]),
    ("POST", "/resource_providers", {"name": "x", "uuid": "y"}, 400, UNDEFINED, ["'y' is not a 'uuid'"]),
    ("POST", "/resource_providers", {"uuid": NEW}, 400, UNDEFINED, ["'name' is a required property"]),
    ("POST", "/resource_providers", "{", 400, UNDEFINED, ["Malformed JSON"]),
    ("POST", "/resource_providers", "", 400, UNDEFINED, ["Malformed JSON"]),
    (
        "POST",
        "/resource_providers",
        {"name": "x", "parent_provider_uuid": NOBODY},
        400,
        UNDEFINED,
        ["parent provider UUID does not exist", NOBODY],
    ),
    ("PUT", RP, {"name": "other"}, 409, "placement.duplicate_name", ["other"]),
    ("PUT", RP, {"name": "a", "parent_provider_uuid": B}, 400, UNDEFINED, ["creating loop", B, A]),
    ("PUT", RP, {"name": "a", "parent_provider_uuid": A}, 400, UNDEFINED, ["creating loop"]),
    ("PUT", RP, {"name": "a", "parent_provider_uuid": NOBODY}, 400, UNDEFINED, ["does not exist", NOBODY]),
    ("DELETE", RP, None, 409, "placement.resource_provider.cannot_delete_parent", ["child"]),
    ("GET", f"/resource_providers/{NOBODY}", None, 404, UNDEFINED, [NOBODY]),
    ("PUT", f"/resource_providers/{NOBODY}/traits", {}, 404, UNDEFINED, [NOBODY]),
    ("DELETE", f"/resource_providers/{NOBODY}", None, 404, UNDEFINED, [NOBODY, "for delete"]),
    ("GET", "/resource_providers?colour=red", None, 400, UNDEFINED, ["colour"]),
    ("GET", "/resource_providers?uuid=a", None, 400, UNDEFINED, ["'uuid'"]),
    ("GET", "/resource_providers?resources=VCPU", None, 400, UNDEFINED, ["resources", "VCPU"]),
    ("GET", "/resource_providers?resources=VCPU:none", None, 400, UNDEFINED, ["VCPU", "none"]),
    ("GET", "/resource_providers?resources=NO_CLASS:1", None, 400, UNDEFINED, ["No such resource class NO_CLASS"]),
    ("GET", "/resource_providers?required=NO_TRAIT", None, 400, UNDEFINED, ["NO_TRAIT"]),
    ("GET", "/resource_providers?member_of=a", None, 400, UNDEFINED, ["member_of", "Got: a"]),
    ("GET", "/resource_providers?name=%ff", None, 400, UNDEFINED, ["query string"]),
    ("GET", f"/resource_providers?resources=VCPU:{'9' * 5000}", None, 400, UNDEFINED, ["VCPU", "999"]),
    ("GET", f"/allocation_candidates?resources=VCPU:1&limit={'9' * 5000}", None, 400, UNDEFINED, ["limit", "999"]),
    ("POST", "/resource_providers", NESTED, 400, UNDEFINED, ["nested too deeply"]),
]

INVENTORIES: list[tuple[str, str, Any, int, str, list[str]]] = [
    (
        "POST",
        f"{RP}/inventories",
        {"resource_class": "VCPU", "total": 1},
        409,
        CONCURRENT,
        [A, "VCPU"],
    ),
    (
        "POST",
        f"{RP}/inventories",
        {"resource_class": "CUSTOM_NONE", "total": 1},
        400,
        UNDEFINED,
        ["No such resource class CUSTOM_NONE"],
    ),
    (
        "POST",
        f"{RP}/inventories",
        {"resource_class": "DISK_GB", "total": 5, "reserved": 6},
        400,
        UNDEFINED,
        ["DISK_GB", A, "reserved value is greater than total"],
    ),
    (
        "POST",
        f"{RP}/inventories",
        {"resource_class": "DISK_GB", "total": 2**31},
        400,
        UNDEFINED,
        ["'maximum'", "total"],
    ),
    ("POST", f"{RP}/inventories", {"resource_class": "DISK_GB", "total": 0}, 400, UNDEFINED, ["less than the minimum"]),
    (
        "PUT",
        f"{RP}/inventories",
        {"resource_provider_generation": 3, "inventories": {"MEMORY_MB": {"total": 4096}}},
        409,
        "placement.inventory.inuse",
        ["VCPU", A, "in use"],
    ),
    (
        "PUT",
        f"{RP}/inventories",
        {"resource_provider_generation": 3, "inventories": {"no class": {"total": 1}}},
        400,
        UNDEFINED,
        ["no class"],
    ),
    ("DELETE", f"{RP}/inventories", None, 409, "placement.inventory.inuse", ["VCPU", A]),
    ("DELETE", f"{RP}/inventories/VCPU", None, 409, CONCURRENT, ["VCPU", A, "in use"]),
    ("DELETE", f"{RP}/inventories/DISK_GB", None, 404, UNDEFINED, ["DISK_GB"]),
    ("GET", f"{RP}/inventories/DISK_GB", None, 404, UNDEFINED, ["DISK_GB", A]),
    (
        "PUT",
        f"{RP}/inventories/DISK_GB",
        {"resource_provider_generation": 3, "total": 1},
        400,
        UNDEFINED,
        ["No inventory record", "DISK_GB"],
    ),
]

NAMES: list[tuple[str, str, Any, int, str, list[str]]] = [
    ("POST", "/resource_classes", {"name": "GOLD"}, 400, UNDEFINED, ["GOLD", "CUSTOM_"]),
    ("POST", "/resource_classes", {"name": "CUSTOM_GOLD"}, 409, UNDEFINED, ["CUSTOM_GOLD"]),
    ("PUT", "/resource_classes/VCPU", None, 400, UNDEFINED, ["VCPU"]),
    ("DELETE", "/resource_classes/VCPU", None, 400, UNDEFINED, ["standard resource class VCPU"]),
    ("DELETE", "/resource_classes/CUSTOM_GOLD", None, 409, UNDEFINED, ["CUSTOM_GOLD", "in use"]),
    ("DELETE", "/resource_classes/CUSTOM_NONE", None, 404, UNDEFINED, ["CUSTOM_NONE"]),
    ("PUT", "/traits/FAST", None, 400, UNDEFINED, ["CUSTOM_"]),
    ("DELETE", "/traits/HW_CPU_X86_VMX", None, 400, UNDEFINED, ["standard trait HW_CPU_X86_VMX"]),
    ("DELETE", "/traits/CUSTOM_FAST", None, 409, UNDEFINED, ["CUSTOM_FAST is in use"]),
    ("GET", "/traits/CUSTOM_NONE", None, 404, UNDEFINED, ["CUSTOM_NONE"]),
    ("GET", "/traits?name=CUSTOM", None, 400, UNDEFINED, ["name parameter", "CUSTOM"]),
    ("GET", "/traits?associated=maybe", None, 400, UNDEFINED, ["associated"]),
    (
        "PUT",
        f"{RP}/traits",
        {"resource_provider_generation": 3, "traits": ["CUSTOM_FAST", "CUSTOM_NONE"]},
        400,
        UNDEFINED,
        ["CUSTOM_NONE"],
    ),
    (
        "PUT",
        f"{RP}/aggregates",
        {"resource_provider_generation": 3, "aggregates": ["rack"]},
        400,
        UNDEFINED,
        ["'rack' is not a 'uuid'"],
    ),
]

ALLOCATIONS: list[tuple[str, str, Any, int, str, list[str]]] = [
    (
        "PUT",
        f"/allocations/{NEW}",
        holding(a={"VCPU": 7}),
        409,
        UNDEFINED,
        ["'VCPU'", A, "exceed the capacity", "free VCPU 6 < requested 7 (capacity 8, used 2)"],
    ),
    (
        "PUT",
        f"/allocations/{NEW}",
        holding(a={"MEMORY_MB": 300}),
        409,
        UNDEFINED,
        ["'MEMORY_MB'", A, "violate inventory constraints", "step_size 256"],
    ),
    (
        "PUT",
        f"/allocations/{NEW}",
        holding(a={"MEMORY_MB": 2304}),
        409,
        UNDEFINED,
        ["violate inventory constraints", "max_unit of MEMORY_MB 2048 < requested 2304"],
    ),
    ("PUT", f"/allocations/{NEW}", holding(a={"MEMORY_MB": 128}), 409, UNDEFINED, ["min_unit 256"]),
    ("PUT", f"/allocations/{NEW}", holding(other={"DISK_GB": 1}), 409, UNDEFINED, ["'DISK_GB'", OTHER]),
    (
        "PUT",
        f"/allocations/{NEW}",
        holding(a={"CUSTOM_NONE": 1}),
        400,
        UNDEFINED,
        ["No such resource class CUSTOM_NONE"],
    ),
    ("PUT", f"/allocations/{NEW}", holding(nobody={"VCPU": 1}), 400, UNDEFINED, [NOBODY, "does not exist"]),
    ("PUT", f"/allocations/{NEW}", holding(a={"VCPU": 0}), 400, UNDEFINED, ["less than the minimum of 1"]),
    ("PUT", f"/allocations/{NEW}", holding(a={}), 400, UNDEFINED, ["{}"]),
    ("PUT", f"/allocations/{NEW}", {**holding(a={"VCPU": 1}), "consumer_type": "vm"}, 400, UNDEFINED, ["'vm'"]),
    ("PUT", "/allocations/one", holding(a={"VCPU": 1}), 400, UNDEFINED, ["Malformed consumer_uuid: one"]),
    ("DELETE", f"/allocations/{NEW}", None, 404, UNDEFINED, [f"No allocations for consumer '{NEW}'"]),
    ("POST", "/allocations", {NEW: holding(a={"VCPU": 9})}, 409, UNDEFINED, ["'VCPU'", A]),
    ("POST", "/allocations", {}, 400, UNDEFINED, ["{}"]),
    (
        "POST",
        "/reshaper",
        {"inventories": {NOBODY: {"resource_provider_generation": 0, "inventories": {}}}, "allocations": {}},
        400,
        "placement.resource_provider.not_found",
        [NOBODY],
    ),
    (
        "POST",
        "/reshaper",
        {"inventories": {A: {"resource_provider_generation": 3, "inventories": {}}}, "allocations": {}},
        409,
        "placement.inventory.inuse",
        ["VCPU", A],
    ),
    (
        "POST",
        "/reshaper",
        {
            "inventories": {A: {"resource_provider_generation": 3, "inventories": {"NO_CLASS": {"total": 1}}}},
            "allocations": {},
        },
        400,
        UNDEFINED,
        ["NO_CLASS"],
    ),
    ("GET", "/usages", None, 400, UNDEFINED, ["project_id"]),
    ("GET", "/usages?project_id=p&consumer_type=vm", None, 400, UNDEFINED, ["'vm'"]),
    ("GET", "/allocation_candidates?resources=VCPU:1&colour=red", None, 400, UNDEFINED, ["colour"]),
    ("GET", "/allocation_candidates?resources=NO_CLASS:1", None, 400, UNDEFINED, ["NO_CLASS"]),
    (
        "GET",
        "/allocation_candidates?resources=VCPU:1&root_required=HW_CPU_X86_VMX&root_required=HW_CPU_X86_SSE",
        None,
        400,
        "placement.query.duplicate_key",
        ["root_required"],
    ),
]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code", "words"),
    [*PROVIDERS, *INVENTORIES, *NAMES, *ALLOCATIONS],
    ids=lambda value: str(value)[:40],
)
def test_bad_input_is_refused_by_name_and_changes_nothing(
    stocked: PlacementCloud, method: str, path: str, body: Any, status: int, code: str, words: list[str]
) -> None:
    before = stocked.everything()
    answer = stocked.ask(method, path, body)
    assert (answer.status, answer.error["status"], answer.error["code"]) == (status, status, code), answer
    assert all(word in answer.error["detail"] for word in words), answer.error["detail"]
    assert stocked.everything() == before


def test_a_provider_in_use_stays(stocked: PlacementCloud) -> None:
    stocked.right("DELETE", f"/resource_providers/{B}")
    answer = stocked.ask("DELETE", RP)
    assert (answer.status, answer.error["code"]) == (409, "placement.resource_provider.inuse")
    stocked.right("DELETE", f"/allocations/{ONE}")
    stocked.right("DELETE", RP)
    assert stocked.ask("GET", RP).status == 404


def test_all_may_be_reserved_from_1_26_on(stocked: PlacementCloud) -> None:
    body = {"resource_class": "DISK_GB", "total": 5, "reserved": 5}
    answer = stocked.ask("POST", f"{RP}/inventories", body, "1.25")
    assert "greater than or equal to total" in answer.body["errors"][0]["detail"]
    assert stocked.ask("POST", f"{RP}/inventories", body, "1.26").status == 201


@pytest.mark.parametrize(("version", "code"), [("1.22", None), ("1.23", "placement.undefined_code")])
def test_errors_have_a_code_from_1_23_on(cloud: PlacementCloud, version: str, code: str | None) -> None:
    answer = cloud.ask("GET", RP, None, version)
    assert answer.error.get("code") == code
    assert answer.error["request_id"] == answer.headers["x-openstack-request-id"]


def test_an_unexpected_error_is_shown_by_its_request_id_alone(
    cloud: PlacementCloud, caplog: pytest.LogCaptureFixture
) -> None:
    with cloud.db.write() as session:
        session.connection().exec_driver_sql("DROP TABLE traits")
    answer = cloud.ask("GET", "/traits")
    assert (answer.status, "traits" in answer.error["detail"]) == (503, False)
    cloud.app.add_route("/broken", Broken())
    answer = cloud.ask("GET", "/broken")
    assert (answer.status, "secret" in answer.error["detail"]) == (500, False)
    assert answer.error["request_id"] in answer.error["detail"]
    assert "secret" in caplog.text


class Broken:
    def on_get(self, request: Any, response: Any) -> None:
        raise RuntimeError("secret")


def test_a_whole_number_may_be_written_with_a_point(stocked: PlacementCloud) -> None:
    seen = stocked.ask("GET", f"{RP}/inventories").body["resource_provider_generation"]
    body = f'{{"resource_provider_generation": {seen}.0, "total": 2e1, "allocation_ratio": 2.0}}'
    answer = stocked.ask("PUT", f"{RP}/inventories/VCPU", body)
    assert answer.status == 200, answer
    assert (answer.body["total"], answer.body["resource_provider_generation"]) == (20, seen + 1)


@pytest.mark.parametrize("version", ["1.x", "9" * 5000 + ".1", "1." + "9" * 5000])
def test_what_is_no_version_is_refused(cloud: PlacementCloud, version: str) -> None:
    answer = cloud.ask("GET", "/resource_providers", None, version)
    assert (answer.status, "invalid version string" in answer.error["detail"]) == (400, True)


def test_a_body_has_its_bound(cloud: PlacementCloud) -> None:
    cloud.conf.set_override("max_request_body_size", 1024, group="placement")
    answer = cloud.ask("POST", "/resource_providers", {"name": "x" * 1100})
    assert (answer.status, "1024" in answer.error["detail"]) == (413, True)


@pytest.mark.parametrize(
    ("method", "path", "body", "place"),
    [
        ("POST", "/resource_providers", {"name": "a\0b"}, "$.name"),
        ("GET", "/resource_providers?name=a%00b", None, "query parameter name"),
        ("GET", "/resource_providers/a%00b", None, "uuid in the path"),
        ("PUT", "/traits/CUSTOM_%00", None, "name in the path"),
    ],
)
def test_nul_is_refused(cloud: PlacementCloud, method: str, path: str, body: Any, place: str) -> None:
    """PostgreSQL stores none."""
    answer = cloud.ask(method, path, body)
    assert (answer.status, answer.error["detail"]) == (400, f"Invalid input: {place} has a NUL character.")
