"""Dry runs, capacity and the history of a decision, for administrators and for others."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import bcrypt
import msgspec
import pytest
from sqlalchemy import select

from minova.db import models
from minova.objects.requests.capacity import Capacity, HostCapacity
from minova.objects.requests.diagnosis import Diagnosis, FilterStep, LostHost, ScheduleAnswer, WeighedHost
from minova.objects.requests.request_spec import Selection
from minova.objects.servers.failures import UNKNOWN
from tests.functional.api.conftest import Cloud
from tests.unit.api.access.test_auth import basic

AT = datetime(2026, 1, 1)  # noqa: DTZ001
LOST = LostHost(host="h1", node="n1", reason="free memory 1 MB < requested 2 MB")
FOUND = Diagnosis(
    request_id="req-1",
    instance_uuids=("nobody",),
    hosts=2,
    found=1,
    steps=(FilterStep(name="RamFilter", before=2, after=1, lost=(LOST,), lacking={"not enough free memory": 1}),),
    weighed=(WeighedHost(host="h2", node="n2", weight=1.0),),
    selected=(("h2", "n2"),),
    conflicts=(LostHost(host="h3", node="n3", reason="h3: free VCPU 0 < requested 1"),),
)
YES = ScheduleAnswer(
    selections=((Selection(host="h2", node="n2", provider_uuid="u", allocation={}),),), diagnosis=FOUND
)
NO = ScheduleAnswer(
    diagnosis=Diagnosis(
        request_id="req-1", instance_uuids=("nobody",), hosts=2, steps=FOUND.steps[:1], error="No host is left for it."
    )
)


@pytest.fixture
def dry_run(stocked: Cloud) -> Callable[..., Any]:
    def ask(**more: Any) -> Any:
        return stocked.ask("POST", "/v2.1/servers/dry-run", {"server": {**stocked.server, **more}})

    return ask


def test_a_dry_run_says_where_and_why(stocked: Cloud, dry_run: Callable[..., Any]) -> None:
    three = msgspec.structs.replace(YES.diagnosis, instance_uuids=("1", "2", "3"))
    stocked.conductor.preview = msgspec.structs.replace(YES, diagnosis=three)
    status, document = dry_run(max_count=5)
    plan = document["dry_run"]
    assert (status, plan["fits"], plan["count"], plan["reason"]) == (200, True, 3, None)
    assert plan["diagnosis"]["selected"] == [["h2", "n2"]]
    assert plan["diagnosis"]["instance_uuids"] == []
    assert plan["diagnosis"]["steps"][0]["lost"][0]["host"] == "h1"
    assert stocked.get("/v2.1/servers")["servers"] == []
    assert stocked.conductor.requests == []


def test_a_dry_run_says_why_not(stocked: Cloud, dry_run: Callable[..., Any]) -> None:
    stocked.conductor.preview = NO
    plan = dry_run()[1]["dry_run"]
    assert plan["fits"] is False
    assert plan["reason"] == "No valid host was found. 2 hosts: RamFilter removed 1 (not enough free memory)."


def test_a_dry_run_asks_as_a_creation_does(stocked: Cloud, dry_run: Callable[..., Any]) -> None:
    dry_run(min_count=1, max_count=2, availability_zone="nova:h9")
    stocked.make_server(min_count=1, max_count=2, availability_zone="nova:h9")
    (previewed,), (requested,) = stocked.conductor.previewed, stocked.conductor.requests
    for field in previewed.__struct_fields__:
        if field not in ("body_hash", "request_uuid"):
            assert getattr(previewed, field) == getattr(requested, field)


@pytest.mark.parametrize(
    "more",
    [
        {"flavorRef": "none"},
        {"imageRef": ""},
        {"min_count": 3, "max_count": 2},
        {"name": ""},
        {"user_data": "aGk"},
        {"key_name": "unknown"},
        {"x": 1},
    ],
)
def test_what_a_creation_refuses_a_dry_run_refuses_alike(
    stocked: Cloud, dry_run: Callable[..., Any], more: dict[str, Any]
) -> None:
    assert dry_run(**more) == stocked.ask("POST", "/v2.1/servers", {"server": {**stocked.server, **more}})
    assert dry_run(**more)[0] == 400


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("quota:disk_read_bytes_sec", "many"),
        ("hw:watchdog_action", "bark"),
        ("hw:tpm_version", "3.0"),
        ("hw:tpm_model", "x"),
    ],
)
def test_flavor_that_no_host_could_serve_is_refused_with_its_key(
    stocked: Cloud, dry_run: Callable[..., Any], key: str, value: str
) -> None:
    path = f"/v2.1/flavors/{stocked.server['flavorRef']}/os-extra_specs"
    stocked.ask("POST", path, {"extra_specs": {key: value}})
    status, document = dry_run()
    assert status == 400
    assert f"Flavor extra spec {key}: " in document["badRequest"]["message"]
    assert stocked.ask("POST", "/v2.1/servers", {"server": stocked.server})[0] == 400


def test_capacity_needs_neither_name_nor_image(stocked: Cloud) -> None:
    stocked.conductor.room = Capacity(total=7, limit=0, hosts=(HostCapacity(host="h1", node="n1", count=7),))
    body = {"server": {"flavorRef": stocked.server["flavorRef"]}, "os:scheduler_hints": {"query": '["=", 1, 1]'}}
    status, document = stocked.ask("POST", "/v2.1/servers/capacity?limit=9", body)
    assert (status, document["capacity"]["total"], document["capacity"]["limit"]) == (200, 7, 9)
    (previewed,) = stocked.conductor.previewed
    assert (previewed.image, previewed.scheduler_hints) == (None, {"query": '["=", 1, 1]'})


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("?limit=0", {}),
        ("?limit=many", {}),
        ("", {"imageRef": "00000000-0000-4000-8000-000000000000"}),
        ("", {"flavorRef": "none"}),
        ("", {"availability_zone": "nowhere"}),
    ],
)
def test_capacity_of_what_cannot_be_is_refused(stocked: Cloud, query: str, body: dict[str, Any]) -> None:
    server = {"flavorRef": stocked.server["flavorRef"], **body}
    assert stocked.ask("POST", f"/v2.1/servers/capacity{query}", {"server": server})[0] == 400


def test_the_history_of_a_decision(stocked: Cloud) -> None:
    uuid = failed_twice(stocked)
    diagnosis = stocked.get(f"/v2.1/servers/{uuid}/diagnosis")["diagnosis"]
    assert [conflict["host"] for conflict in diagnosis["conflicts"]] == ["h3"]
    assert [(attempt["host"], attempt["result"], attempt["reason"]) for attempt in diagnosis["attempts"]] == [
        ("h1", "Error", "no disk on h1"),
        ("h2", None, ""),
    ]


def failed_twice(stocked: Cloud) -> str:
    """A server whose first attempt has failed and whose fault tells of it."""
    uuid: str = stocked.make_server()["id"]
    stocked.conductor.add_diagnosis([uuid], FOUND, AT)
    action = models.InstanceAction(
        instance_uuid=uuid, action="create", request_id="r", project_id="demo", user_id="a", start_time=AT
    )
    event = {"event": "build_and_run_instance", "start_time": AT}
    stocked.conductor.add(action)
    with stocked.db.read() as session:
        number = max(
            session.scalars(select(models.InstanceAction.id).where(models.InstanceAction.instance_uuid == uuid))
        )
    stocked.conductor.add(
        models.InstanceActionEvent(
            action_id=number, host="h1", result="Error", details="no disk on h1", finish_time=AT, **event
        ),
        models.InstanceActionEvent(action_id=number, host="h2", **event),
        models.InstanceFault(
            instance_uuid=uuid,
            code=500,
            message="Build failed in 2 attempts. h1: no disk on h1; h2: gone",
            details="",
            created_at=AT,
        ),
    )
    stocked.conductor.edit(uuid, vm_state="error", task_state=None)
    return uuid


# -- people who are no administrators ------------------------------------------------------------------------------------


@pytest.fixture
def alice(stocked: Cloud, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Asks the same cloud as the user to whose project everything in it belongs."""
    project = stocked.get("/v2/images")["images"][0]["owner"]
    file = tmp_path / "htpasswd"
    file.write_text(f"{project}:{bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}\n")
    cloud = Cloud(tmp_path, auth_strategy="http_basic", http_basic_auth_user_file=str(file), admin_users=["root"])
    cloud.conductor.preview = YES
    headers = {"Authorization": basic(f"{project}:secret".encode())}
    yield lambda method, path, body=None: cloud.ask(method, path, body, headers=headers)
    cloud.close()


def test_others_see_counts_and_what_is_lacking_but_no_names(stocked: Cloud, alice: Callable[..., Any]) -> None:
    uuid = failed_twice(stocked)
    status, said = alice("GET", f"/v2.1/servers/{uuid}/diagnosis")
    assert status == 200
    assert not names_in(said)
    step = said["diagnosis"]["steps"][0]
    assert (step["before"], step["after"], step["lost"]) == (2, 1, [])
    assert step["lacking"] == {"not enough free memory": 1}
    assert len(said["diagnosis"]["conflicts"]) == 1
    assert [(attempt["result"], attempt["reason"]) for attempt in said["diagnosis"]["attempts"]] == [
        ("Error", UNKNOWN),
        (None, ""),
    ]


def test_a_fault_names_no_host_to_others(stocked: Cloud, alice: Callable[..., Any]) -> None:
    uuid = failed_twice(stocked)
    for path in (f"/v2.1/servers/{uuid}", "/v2.1/servers/detail"):
        status, said = alice("GET", path)
        assert status == 200
        server = said.get("server") or said["servers"][0]
        assert server["fault"]["message"] == UNKNOWN
    whole = stocked.get(f"/v2.1/servers/{uuid}")["server"]["fault"]["message"]
    assert whole == "Build failed in 2 attempts. h1: no disk on h1; h2: gone"


def test_a_dry_run_of_others_says_yes_or_no(stocked: Cloud, alice: Callable[..., Any]) -> None:
    status, said = alice("POST", "/v2.1/servers/dry-run", {"server": stocked.server})
    assert (status, said["dry_run"]["fits"]) == (200, True)
    assert not names_in(said)


def test_capacity_is_for_administrators(stocked: Cloud, alice: Callable[..., Any]) -> None:
    server = {"flavorRef": stocked.server["flavorRef"]}
    assert alice("POST", "/v2.1/servers/capacity", {"server": server})[0] == 403


def names_in(document: Any) -> list[str]:
    return re.findall(r"\b[hn][123]\b", json.dumps(document))


@pytest.mark.parametrize("kind", [None, "DiskFull"])
def test_texts_that_an_older_release_wrote_of_actions_are_for_administrators(
    stocked: Cloud, alice: Callable[..., Any], kind: str | None
) -> None:
    uuid, raw = stocked.make_server()["id"], "host h1: /var/lib/minova/instances: No space left on device"
    times: dict[str, Any] = {"start_time": AT, "finish_time": AT, "result": "Error"}
    with stocked.db.write() as session:
        action = models.InstanceAction(
            instance_uuid=uuid, action="stop", request_id="req-old", user_id="u", project_id="p", message=raw, **times
        )
        session.add(action)
        session.flush()
        event = "compute_stop_instance"
        session.add(models.InstanceActionEvent(action_id=action.id, event=event, details=raw, kind=kind, **times))
    path = f"/v2.1/servers/{uuid}/os-instance-actions"
    shown = UNKNOWN if kind is None else raw
    for ask, expected in ((stocked.ask, raw), (alice, shown)):
        listed = ask("GET", path)[1]["instanceActions"][0]
        instanceaction = ask("GET", f"{path}/req-old")[1]["instanceAction"]
        assert (listed["message"], instanceaction["message"]) == (expected, expected)
