"""`/servers` over a real database: what is made, seen, found, and gone."""

import uuid
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy.orm import Session

from minova import errors
from minova.context import service_context
from minova.db import models
from minova.objects.actions.action import ServerAction
from minova.objects.actions.rebuild import REBUILD
from minova.objects.actions.rescue import RESCUE
from minova.objects.actions.table import RUN_BY_HOSTS
from minova.objects.catalogue.flavor import LocalDisk
from minova.objects.requests.diagnosis import Diagnosis, FilterStep, LostHost, WeighedHost
from tests.fakes.action_arguments import body_of, sent_with
from tests.functional.api.conftest import Cloud, at

SHAPE = {
    "id", "name", "status", "tenant_id", "user_id", "metadata", "hostId", "image", "flavor", "created", "updated",
    "addresses", "accessIPv4", "accessIPv6", "links", "OS-DCF:diskConfig", "progress", "OS-EXT-AZ:availability_zone",
    "config_drive", "key_name", "OS-SRV-USG:launched_at", "OS-SRV-USG:terminated_at", "OS-EXT-SRV-ATTR:host",
    "OS-EXT-SRV-ATTR:instance_name", "OS-EXT-SRV-ATTR:hypervisor_hostname", "OS-EXT-STS:task_state",
    "OS-EXT-STS:vm_state", "OS-EXT-STS:power_state", "os-extended-volumes:volumes_attached",
}  # fmt: skip


def names(page: Any) -> list[str]:
    return [server["name"] for server in page["servers"]]


def test_a_created_server_has_openstacks_shape(stocked: Cloud) -> None:
    created = stocked.make_server("web", metadata={"role": "web"})
    assert created["links"][0]["href"].endswith(f"/v2.1/servers/{created['id']}")
    server = stocked.get(f"/v2.1/servers/{created['id']}")["server"]
    assert set(server) == SHAPE
    assert (server["name"], server["status"], server["OS-EXT-STS:task_state"]) == ("web", "BUILD", "scheduling")
    assert server["metadata"] == {"role": "web"}
    assert set(server["flavor"]) == set(server["image"]) == {"id", "links"}
    assert (server["addresses"], server["config_drive"], server["hostId"]) == ({}, "", "")


def test_what_the_conductor_is_asked(stocked: Cloud) -> None:
    stocked.make_server("web", min_count=2, max_count="3", availability_zone="nova:h1:n1")
    (request,) = stocked.conductor.requests
    assert (request.name, request.min_count, request.max_count) == ("web", 2, 3)
    assert (request.availability_zone, request.force_host, request.force_node) == ("nova", "h1", "n1")
    assert (request.flavor.name, request.image.name) == ("tiny", "guest")
    assert request.image.os_hash_value


def test_hints_are_carried(stocked: Cloud) -> None:
    hints = {"different_host": [str(uuid.uuid4()), str(uuid.uuid4())], "ours": {"a": 1}}
    body = {"server": stocked.server, "os:scheduler_hints": hints | {"_nova_check_type": ["rebuild"]}}
    assert stocked.ask("POST", "/v2.1/servers", body)[0] == 202
    assert stocked.conductor.requests[0].scheduler_hints == hints


@pytest.mark.parametrize(
    ("spec", "value", "named"),
    [
        ("hw:cpu_policy", "pinned", "hw:cpu_policy"),
        ("hw:numa_nodes", "x", "hw:numa_nodes"),
        ("hw:mem_page_size", "huge", "hw:mem_page_size"),
        ("hw:pci_numa_affinity_policy", "near", "hw:pci_numa_affinity_policy"),
        ("pci_passthrough:alias", "qat:1", "qat"),
        ("pci_passthrough:alias", "qat", "pci_passthrough:alias"),
        ("trait:HW_CPU_X86_AVX", "perhaps", "trait:HW_CPU_X86_AVX"),
    ],
)
def test_what_a_flavor_asks_of_hosts_and_cannot_be_is_told_before_anything_is_written(
    stocked: Cloud, spec: str, value: str, named: str
) -> None:
    flavor = stocked.make_flavor("odd", extra_specs={spec: value})
    status, document = stocked.ask("POST", "/v2.1/servers", {"server": {**stocked.server, "flavorRef": flavor["id"]}})
    assert status == 400
    assert named in document["badRequest"]["message"]
    assert value in document["badRequest"]["message"]
    assert stocked.conductor.requests == []


@pytest.mark.parametrize("key", ["os:scheduler_hints", "OS-SCH-HNT:scheduler_hints"])
def test_a_server_group_is_not_dropped_in_silence(stocked: Cloud, key: str) -> None:
    group = str(uuid.uuid4())
    status, document = stocked.ask("POST", "/v2.1/servers", {"server": stocked.server, key: {"group": group}})
    assert status == 400
    assert document["badRequest"]["message"] == f"Instance group {group} could not be found."
    assert stocked.conductor.requests == []


def test_a_reservation_id_instead_of_a_server(stocked: Cloud) -> None:
    created = stocked.make_server("web", max_count=3, return_reservation_id=True)
    assert set(created) == {"reservation_id"}
    servers = stocked.get("/v2.1/servers/detail", params={"reservation_id": created["reservation_id"]})["servers"]
    assert [server["name"] for server in servers] == ["web-3", "web-2", "web-1"]


FILE = {"path": "/etc/motd", "contents": "aGk="}
WRONG: list[tuple[dict[str, Any], int, str]] = [
    ({"name": "x" * 300}, 400, "300 characters"),
    ({"name": "a\nb"}, 400, "cannot be printed"),
    ({"name": "a\x00b"}, 400, "$.server.name has a NUL character"),
    ({"name": ""}, 400, "empty"),
    ({"name": 7}, 400, "server.name"),
    ({"name": "x" * 250, "max_count": 100}, 201, ""),
    ({"name": "x" * 252, "max_count": 100}, 400, "too long"),
    ({"flavorRef": "nothing"}, 400, "flavor nothing could not be found"),
    ({"flavorRef": "x\x00"}, 400, "$.server.flavorRef has a NUL character"),
    ({"imageRef": str(uuid.uuid4())}, 400, "Can not find requested image"),
    ({"imageRef": "../../etc/passwd"}, 400, "imageRef. Value: ../../etc/passwd. It is not a 'uuid'"),
    ({"imageRef": ""}, 400, "imageRef is missing"),
    ({"min_count": 0}, 400, "min_count"),
    ({"max_count": -1}, 400, "max_count"),
    ({"min_count": 3, "max_count": 2}, 400, "min_count must be <= max_count"),
    ({"max_count": 10**9}, 403, "Quota exceeded"),
    ({"max_count": 10**18}, 403, "Quota exceeded"),
    ({"max_count": 10**30}, 400, "max_count"),
    ({"availability_zone": "mars"}, 400, "zone is not available: mars"),
    ({"availability_zone": "a:b:c:d"}, 400, "Invalid availability_zone"),
    ({"metadata": {"a/b": "c"}}, 400, "metadata"),
    ({"metadata": {"a": 1}}, 400, "metadata"),
    ({"metadata": {"a": "x" * 256}}, 400, "metadata"),
    ({"metadata": {str(number): "x" for number in range(129)}}, 403, "metadata items"),
    ({"user_data": "a"}, 400, "server.user_data: it is not base64"),
    ({"user_data": "YQ==!"}, 400, "server.user_data: it is not base64"),
    ({"user_data": "#!/bin/sh"}, 400, "server.user_data: it is not base64"),
    ({"user_data": "YWFh" * 16384}, 400, "user_data"),
    ({"user_data": 1}, 400, "user_data"),
    ({"config_drive": "perhaps"}, 400, "config_drive"),
    ({"personality": [{"path": "/a", "contents": "?"}], "config_drive": True}, 400, "personality.contents: it is not"),
    ({"personality": [{"path": "", "contents": ""}], "config_drive": True}, 400, "a path is empty"),
    ({"personality": [{"path": "/a"}], "config_drive": True}, 400, "contents"),
    ({"colour": "red"}, 400, "colour"),
    ({"networks": [{"uuid": str(uuid.uuid4())}]}, 400, "could not be found"),
    ({"security_groups": [{"name": "web"}]}, 400, "Security group not found"),
    ({"personality": [FILE | {"contents": "?"}]}, 400, "personality.contents: it is not"),
    ({"key_name": "mine"}, 400, "Invalid key_name provided."),
    ({"key_name": ""}, 400, "Invalid key_name provided."),
    ({"key_name": "x" * 256}, 400, "key_name"),
    ({"adminPass": 5, "config_drive": True}, 400, "adminPass"),
    (
        {"block_device_mapping_v2": [{"source_type": "volume", "uuid": "v"}]},
        400,
        "Not served: block_device_mapping_v2. There is no volume service",
    ),
]


@pytest.mark.parametrize(("more", "status", "why"), WRONG)
def test_a_wrong_request_is_refused_and_makes_nothing(
    stocked: Cloud, more: dict[str, Any], status: int, why: str
) -> None:
    answered, document = stocked.ask("POST", "/v2.1/servers", {"server": {**stocked.server, **more}})
    if status == 201:
        assert answered == 202
        return
    assert answered == status, document
    (fault,) = document.values()
    assert fault["code"] == status
    assert why in fault["message"]
    assert stocked.conductor.requests == []


HARMLESS: list[dict[str, Any]] = [
    {"networks": []},
    {"security_groups": [{"name": "default"}]},
    {"OS-DCF:diskConfig": "MANUAL"},
    {"config_drive": False},
    {"key_name": None},
    {"name": "<server a='1'>&amp;</server>"},
]


@pytest.mark.parametrize("more", HARMLESS)
def test_what_asks_for_nothing_is_taken(stocked: Cloud, more: dict[str, Any]) -> None:
    stocked.make_server(**{"name": "vm", **more})
    assert stocked.get("/v2.1/servers")["servers"][0]["name"] == more.get("name", "vm")


def test_the_root_disk_that_clients_spell_out_is_taken(stocked: Cloud) -> None:
    disk = {"uuid": stocked.server["imageRef"], "source_type": "image", "destination_type": "local", "boot_index": 0}
    stocked.make_server(block_device_mapping_v2=[{**disk, "delete_on_termination": True}])
    spoilt = {**stocked.server, "block_device_mapping_v2": [{**disk, "delete_on_termination": False}]}
    assert stocked.ask("POST", "/v2.1/servers", {"server": spoilt})[0] == 400


def test_ephemeral_disks_that_a_request_divides_are_handed_on(cloud: Cloud) -> None:
    flavor = cloud.make_flavor("big", **{"OS-FLV-EXT-DATA:ephemeral": 2})
    image = cloud.make_image()
    blank = {"source_type": "blank", "destination_type": "local", "boot_index": -1, "volume_size": 1}
    server = {"name": "vm", "flavorRef": flavor["id"], "imageRef": image["id"]}
    answered = cloud.ask("POST", "/v2.1/servers", {"server": {**server, "block_device_mapping_v2": [blank, blank]}})
    assert answered[0] == 202
    disk = LocalDisk(size_mb=1024)
    assert cloud.conductor.requests[-1].block_device_mapping == (disk, disk)
    status, document = cloud.ask(
        "POST", "/v2.1/servers", {"server": {**server, "block_device_mapping_v2": [blank] * 3}}
    )
    assert (status, document["badRequest"]["message"][:35]) == (400, "Ephemeral disks requested are large")


@pytest.mark.parametrize(
    ("image", "why"),
    [
        ({"min_ram": 129}, "min_ram 129 MB > memory 128 MB"),
        ({"min_disk": 2}, "min_disk 2 GB > root disk 1 GB"),
        ({"data": None}, "its status is queued"),
    ],
)
def test_an_image_that_does_not_fit(stocked: Cloud, image: dict[str, Any], why: str) -> None:
    other_image = stocked.make_image("other", **image)
    status, document = stocked.ask(
        "POST", "/v2.1/servers", {"server": {**stocked.server, "imageRef": other_image["id"]}}
    )
    assert status == 400
    assert why in document["badRequest"]["message"]


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"hw_disk_bus": "fdc"}, "hw_disk_bus: 'fdc' is not valid: known are ide, sata, scsi, usb, virtio"),
        ({"hw_machine_type": "q35,accel=tcg"}, "hw_machine_type: 'q35,accel=tcg' is not valid"),
        ({"hw_video_model": "riva128"}, "hw_video_model: 'riva128' is not valid"),
    ],
)
@pytest.mark.parametrize("path", ["/v2.1/servers", "/v2.1/servers/dry-run"])
def test_image_asks_for_hardware_that_cannot_be(
    stocked: Cloud, path: str, properties: dict[str, Any], words: str
) -> None:
    image = stocked.make_image("other", **properties)
    status, document = stocked.ask("POST", path, {"server": {**stocked.server, "imageRef": image["id"]}})
    assert status == 400
    assert words in document["badRequest"]["message"]


# -- the client's own UUID -----------------------------------------------------------------------------------------------


def create(cloud: Cloud, request_uuid: str, body: Any) -> tuple[int, Any]:
    return cloud.ask("POST", "/v2.1/servers", body, headers={"X-Minova-Request-UUID": request_uuid})


def test_a_repeated_request_answers_the_same_server(stocked: Cloud) -> None:
    own = str(uuid.uuid4())
    first = create(stocked, own, {"server": stocked.server})
    reordered = {"server": dict(reversed(stocked.server.items()))}
    assert create(stocked, own.upper(), reordered) == first
    stocked.conductor.delete_flavor(service_context(), flavorid=stocked.server["flavorRef"])
    assert create(stocked, own, {"server": stocked.server}) == first
    assert len(stocked.get("/v2.1/servers")["servers"]) == 1


def test_the_same_uuid_with_another_body_is_a_conflict(stocked: Cloud) -> None:
    own = str(uuid.uuid4())
    create(stocked, own, {"server": stocked.server})
    status, document = create(stocked, own, {"server": {**stocked.server, "name": "other"}})
    assert (status, document["conflictingRequest"]["code"]) == (409, 409)
    assert create(stocked, "not-a-uuid", {"server": stocked.server})[0] == 400


def test_a_fault_is_shown_of_servers_in_error(stocked: Cloud) -> None:
    created = stocked.make_server()
    at = datetime(2026, 1, 31, 12)  # noqa: DTZ001
    for message in ("first", "No valid host was found. 1 host: RamFilter removed 1."):
        fault = {"code": 500, "message": message, "details": "", "created_at": at}
        stocked.conductor.add(models.InstanceFault(instance_uuid=created["id"], **fault))
    assert "fault" not in stocked.get(f"/v2.1/servers/{created['id']}")["server"]
    stocked.conductor.edit(created["id"], vm_state="error", task_state=None)
    for server in (
        stocked.get(f"/v2.1/servers/{created['id']}")["server"],
        stocked.get("/v2.1/servers/detail")["servers"][0],
    ):
        assert server["status"] == "ERROR"
        assert server["fault"] == {
            "code": 500,
            "message": "No valid host was found. 1 host: RamFilter removed 1.",
            "created": "2026-01-31T12:00:00Z",
        }


def test_a_fault_is_shown_while_a_delete_goes_on(stocked: Cloud) -> None:
    created = stocked.make_server()
    fault = {"code": 500, "message": "Host a could not remove the instance yet: busy", "details": ""}
    stocked.conductor.add(models.InstanceFault(instance_uuid=created["id"], created_at=datetime(2026, 1, 31), **fault))  # noqa: DTZ001
    stocked.conductor.edit(created["id"], vm_state="active", task_state="deleting")
    for server in (
        stocked.get(f"/v2.1/servers/{created['id']}")["server"],
        stocked.get("/v2.1/servers/detail")["servers"][0],
    ):
        assert (server["status"], server["fault"]["message"]) == ("ACTIVE", fault["message"])


# -- delete, console, diagnosis ------------------------------------------------------------------------------------------


def test_a_deleted_server_is_gone_but_for_those_who_ask_for_deleted_ones(stocked: Cloud) -> None:
    server = stocked.make_server()
    path = f"/v2.1/servers/{server['id']}"
    assert stocked.ask("DELETE", path) == (204, None)
    assert stocked.conductor.deleted == [server["id"]]
    for method in ("GET", "DELETE"):
        status, document = stocked.ask(method, path)
        assert (status, document["itemNotFound"]["code"]) == (404, 404)
    assert names(stocked.get("/v2.1/servers")) == []
    assert names(stocked.get("/v2.1/servers?deleted=1")) == ["vm"]
    assert stocked.get("/v2.1/servers/detail?status=DELETED")["servers"][0]["status"] == "DELETED"


def test_the_console_of_a_server(stocked: Cloud) -> None:
    server = stocked.make_server()
    path = f"/v2.1/servers/{server['id']}/action"
    assert stocked.ask("POST", path, {"os-getConsoleOutput": {}})[0] == 409
    stocked.conductor.edit(server["id"], host="h1")
    stocked.consoles.texts[server["id"]] = "ready\x1b[0m\n"
    for length, lines in (
        ({}, None),
        ({"length": "5"}, 5),
        ({"length": 5}, 5),
        ({"length": -1}, None),
        ({"length": None}, None),
    ):
        status, document = stocked.ask("POST", path, {"os-getConsoleOutput": length})
        assert (status, document) == (200, {"output": "ready\x1b[0m\n"})
        assert stocked.consoles.asked[-1] == ("h1", server["id"], lines)
    assert stocked.ask("POST", path, {"os-getConsoleOutput": {"length": 0}}) == (200, {"output": ""})


@pytest.mark.parametrize(
    "action",
    [run_by_host for run_by_host in RUN_BY_HOSTS if run_by_host.key and run_by_host is not REBUILD],
    ids=lambda action: action.kind,
)
def test_a_server_action_is_accepted_and_handed_to_the_conductor(stocked: Cloud, action: ServerAction) -> None:
    server = stocked.make_server()
    path, body = f"/v2.1/servers/{server['id']}/action", {action.key: body_of(action)}
    status, answer = stocked.ask("POST", path, body, **at("2.17"))
    assert (status, answer is None) == ((200, False) if action is RESCUE else (202, True))
    ((instance_uuid, kind, arguments),) = stocked.conductor.actions
    assert (instance_uuid, kind, set(arguments)) == (server["id"], action.kind, set(sent_with(action)))
    assert action.makes_image or arguments == sent_with(action)
    assert stocked.ask("POST", f"/v2.1/servers/{uuid.uuid4()}/action", body, **at("2.17"))[0] == 404


@pytest.mark.parametrize(("written", "kind"), [("Hard", "reboot_hard"), ("soft", "reboot_soft")])
def test_a_type_of_reboot_may_be_written_in_small_letters(stocked: Cloud, written: str, kind: str) -> None:
    server = stocked.make_server()
    assert stocked.ask("POST", f"/v2.1/servers/{server['id']}/action", {"reboot": {"type": written}})[0] == 202
    assert stocked.conductor.actions[0][1] == kind


def test_a_rescue_answers_its_password_and_names_its_image(stocked: Cloud) -> None:
    server = stocked.make_server()
    path = f"/v2.1/servers/{server['id']}/action"
    assert stocked.ask("POST", path, {"rescue": {"adminPass": "a b"}}) == (200, {"adminPass": "a b"})
    none_given: tuple[Any, ...] = (None, {})
    made_up = [stocked.ask("POST", path, {"rescue": body})[1]["adminPass"] for body in none_given]
    assert [len(password) for password in made_up] == [12, 12]
    assert made_up[0] != made_up[1]
    image = stocked.make_image()["id"]
    assert stocked.ask("POST", path, {"rescue": {"rescue_image_ref": image}})[0] == 200
    assert [arguments.get("rescue_image", {}).get("id") for *_, arguments in stocked.conductor.actions] == [
        None,
        None,
        None,
        image,
    ]


@pytest.mark.parametrize("reference", ["", "x", "00000000-0000-4000-8000-000000000000"])
def test_an_image_that_cannot_rescue_is_a_bad_request(stocked: Cloud, reference: str) -> None:
    server = stocked.make_server()
    body = {"rescue": {"rescue_image_ref": reference}}
    status, document = stocked.ask("POST", f"/v2.1/servers/{server['id']}/action", body)
    message = f"Requested rescue image '{reference}' is not supported"
    assert (status, document) == (400, {"badRequest": {"code": 400, "message": message}})
    assert stocked.conductor.actions == []


def test_a_server_in_the_wrong_state_is_a_conflict_with_novas_text(stocked: Cloud) -> None:
    server = stocked.make_server()
    text = f"Cannot 'start' instance {server['id']} while it is in vm_state active"

    def refuse(method: str) -> None:
        raise errors.Conflict(text)

    stocked.conductor.before = refuse
    status, document = stocked.ask("POST", f"/v2.1/servers/{server['id']}/action", {"os-start": None})
    assert (status, document) == (409, {"conflictingRequest": {"code": 409, "message": text}})


@pytest.mark.parametrize(("vm_state", "task_state"), [("stopped", None), ("stopped", "powering-on")])
def test_a_stopped_server_is_shutoff(stocked: Cloud, vm_state: str, task_state: str | None) -> None:
    created = stocked.make_server()
    stocked.conductor.edit(created["id"], vm_state=vm_state, task_state=task_state)
    server = stocked.ask("GET", f"/v2.1/servers/{created['id']}")[1]["server"]
    assert (server["status"], server["OS-EXT-STS:task_state"]) == ("SHUTOFF", task_state)
    assert "progress" not in server, "as in Nova, which shows it while something may progress"


@pytest.mark.parametrize(
    "body",
    [
        {"dance": {}},
        {"reboot": None},
        {"rescue": {"adminPass": 5}},
        {"rescue": {"image": "x"}},
        {"rescue": "x"},
        {"reboot": {}},
        {"reboot": {"type": "hARD"}},
        {"reboot": {"type": 1}},
        {"reboot": {"type": "HARD", "now": True}},
        {},
        {"a": 1, "b": 2},
        {"os-getConsoleOutput": {"length": -2}},
        {"os-getConsoleOutput": 5},
        [],
    ],
)
def test_an_unknown_or_malformed_action_is_refused(stocked: Cloud, body: Any) -> None:
    server = stocked.make_server()
    status, document = stocked.ask("POST", f"/v2.1/servers/{server['id']}/action", body)
    assert (status, document["badRequest"]["code"]) == (400, 400)


def test_a_diagnosis_is_whole_for_administrators(stocked: Cloud) -> None:
    server = stocked.make_server()
    path = f"/v2.1/servers/{server['id']}/diagnosis"
    assert stocked.ask("GET", path)[0] == 404
    lost = LostHost(host="h1", node="n1", reason="free memory 1 MB < 2 MB")
    diagnosis = Diagnosis(
        request_id="req-1",
        instance_uuids=(server["id"],),
        hosts=2,
        steps=(FilterStep(name="RamFilter", before=2, after=1, lost=(lost,)),),
        weighed=(WeighedHost(host="h2", node="n2", weight=1.0),),
        selected=(("h2", "n2"),),
    )
    at = datetime(2026, 1, 1)  # noqa: DTZ001
    stocked.conductor.add_diagnosis([server["id"]], diagnosis, at)
    answer = stocked.get(path)["diagnosis"]
    assert answer["steps"][0]["lost"][0]["reason"] == "free memory 1 MB < 2 MB"
    assert answer["selected"] == [["h2", "n2"]]


def test_a_busy_conductor_is_answered_with_503_and_a_time(stocked: Cloud) -> None:
    def busy(method: str) -> None:
        raise errors.ServiceUnavailable("the queue is full")

    stocked.conductor.before = busy
    result = stocked.client.simulate_post("/v2.1/servers", json={"server": stocked.server})
    assert result.status_code == 503
    assert result.json == {"serviceUnavailable": {"code": 503, "message": "the queue is full"}}
    assert result.headers["Retry-After"].isdigit()


def test_a_forced_deletion_says_so_to_the_conductor(stocked: Cloud) -> None:
    server, other = stocked.make_server(), stocked.make_server("other")
    assert stocked.ask("POST", f"/v2.1/servers/{server['id']}/action", {"forceDelete": None}) == (202, None)
    assert stocked.ask("DELETE", f"/v2.1/servers/{other['id']}")[0] == 204
    assert (stocked.conductor.deleted, stocked.conductor.forced) == ([server["id"], other["id"]], [server["id"]])
    assert stocked.ask("POST", f"/v2.1/servers/{uuid.uuid4()}/action", {"forceDelete": None})[0] == 404


def test_a_server_that_is_soft_deleted_is_listed_by_its_status_alone(stocked: Cloud) -> None:
    server = stocked.make_server()

    def soft_delete(session: Session) -> None:
        session.query(models.Instance).filter_by(uuid=server["id"]).update({"vm_state": "soft-delete"})

    stocked.db.run(soft_delete)
    assert stocked.get("/v2.1/servers")["servers"] == []
    (listed,) = stocked.get("/v2.1/servers/detail?status=SOFT_DELETED")["servers"]
    assert (listed["id"], listed["status"]) == (server["id"], "SOFT_DELETED")
    assert stocked.get(f"/v2.1/servers/{server['id']}")["server"]["status"] == "SOFT_DELETED"
