"""What servers in progress look like: their status, what is shown beside it, listings by it, and clients that wait for its end."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import openstack
import pytest

from minova.api.server import ApiService
from minova.db import models
from tests.functional.api.conftest import Cloud, at

STATES = {
    "idle": ("active", None),
    "soft": ("active", "reboot_started"),
    "hard": ("active", "rebooting_hard"),
    "hung": ("error", "rebooting_hard"),
    "secret": ("active", "updating_password"),
    "anew": ("stopped", "rebuild_spawning"),
    "again": ("error", "rebuilding"),
    "off": ("stopped", None),
    "moving": ("paused", "migrating"),
    "born": ("building", "spawning"),
    "gone": ("deleted", None),
}


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """A server of each of STATES. Tests only read."""
    cloud = Cloud(tmp_path_factory.mktemp("status")).with_catalogue()
    when = datetime(2026, 1, 31)  # noqa: DTZ001  - as the database keeps times
    for name, (vm_state, task_state) in STATES.items():
        uuid = cloud.make_server(name)["id"]
        ended = when if vm_state == "deleted" else None
        cloud.conductor.edit(uuid, vm_state=vm_state, task_state=task_state, progress=40, deleted_at=ended)
        fault = models.InstanceFault(instance_uuid=uuid, code=500, message="It was lost.", details="", created_at=when)
        cloud.conductor.add(fault)
    yield cloud
    cloud.close()


def listed(cloud: Cloud, query: str, version: str = "2.1") -> set[str]:
    servers = cloud.get("/v2.1/servers", query_string=query, **at(version))["servers"]
    return {server["name"] for server in servers}


def test_status_progress_and_fault_are_those_of_the_task(busy: Cloud) -> None:
    servers = busy.get("/v2.1/servers/detail")["servers"]
    assert {server["name"]: (server["status"], "progress" in server, "fault" in server) for server in servers} == {
        "idle": ("ACTIVE", True, False),
        "soft": ("REBOOT", False, False),
        "hard": ("HARD_REBOOT", False, False),
        "hung": ("ERROR", False, True),
        "secret": ("PASSWORD", False, False),
        "anew": ("REBUILD", True, False),
        "again": ("REBUILD", True, False),
        "off": ("SHUTOFF", False, False),
        "moving": ("MIGRATING", True, False),
        "born": ("BUILD", True, False),
    }


@pytest.mark.parametrize("version", ["2.1", "2.37", "2.38", "2.100"])
def test_listings_by_status_find_what_novas_find(busy: Cloud, version: str) -> None:
    names_by_query = {
        "status=REBOOT": {"soft"},
        "status=reboot&status=HARD_REBOOT": {"soft", "hard"},
        "status=PASSWORD": {"secret"},
        "status=REBUILD": {"anew", "again"},
        "status=MIGRATING": {"moving"},
        "status=RESIZE": set[str](),
        # Nova does not look at task states for these.
        "status=ACTIVE": {"idle", "soft", "hard", "secret"},
        "status=SHUTOFF": {"off", "anew"},
        "status=ERROR": {"hung", "again"},
        "status=REBUILD&status=BUILD": {"idle", "soft", "hard", "secret", "hung", "anew", "again", "off", "born"},
        # Those of the status win.
        "status=REBOOT&task_state=rebooting_hard&vm_state=error": {"soft"},
        "status=ACTIVE&task_state=rebooting_hard": {"hard"},
        "vm_state=error&task_state=rebooting_hard": {"hung"},
        # A word that is no status beside one that is.
        "status=HAPPY&status=BUILD": {"born"},
        "status=DELETED": {"gone"},
        "status=DELETED&deleted=False": {"gone"},
        "status=DELETED&status=BUILD": {"born"},
        "status=DELETED&status=BUILD&changes-since=2000-01-01T00:00:00Z": {"born", "gone"},
    }
    assert {query: listed(busy, query, version) for query in names_by_query} == names_by_query


@pytest.mark.parametrize("word", ["HAPPY", "UNKNOWN", "", "HAPPY&status=SAD"])
def test_a_word_that_is_no_status_is_refused_since_2_38(busy: Cloud, word: str) -> None:
    query = f"status={word}"
    assert listed(busy, query) == listed(busy, query, "2.37") == set()
    for path in ("/v2.1/servers", "/v2.1/servers/detail"):
        status, answer = busy.ask("GET", path, query_string=query, **at("2.38"))
        assert (status, answer["badRequest"]["message"]) == (400, "Invalid status value")


# -- clients that wait ---------------------------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Cloud]:
    cloud = Cloud(tmp_path, osapi_compute_listen_port=0).with_catalogue()
    yield cloud
    cloud.close()


@pytest.fixture
def sdk(served: Cloud) -> Iterator[Any]:
    service = ApiService(served.conf, served.app)
    service.start()
    url = f"http://127.0.0.1:{service.port}"
    connection = openstack.connect(
        load_yaml_config=False,
        load_envvars=False,
        auth_type="none",
        auth={"endpoint": url},
        compute_endpoint_override=f"{url}/v2.1",
    )
    yield connection
    connection.close()
    connection.session.session.close()
    service.stop()


def rebuild(sdk: Any, uuid: str, image: str) -> Any:
    return sdk.compute.rebuild_server(uuid, image=image)


def reboot(sdk: Any, uuid: str, image: str) -> Any:
    sdk.compute.reboot_server(uuid, "SOFT")
    return sdk.compute.get_server(uuid)


# The SDK warns of itself.
@pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning")
@pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning")
@pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackWarning")
@pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning")
@pytest.mark.parametrize(("act", "status"), [(rebuild, "REBUILD"), (reboot, "REBOOT")])
def test_the_sdk_waits_until_an_action_has_ended(served: Cloud, sdk: Any, act: Any, status: str) -> None:
    uuid = served.make_server()["id"]
    served.conductor.edit(uuid, vm_state="active", task_state=None, host="h1", node="n1")
    begun = act(sdk, uuid, served.server["imageRef"])
    assert begun.status == status
    questions = []

    def asked(progress: int) -> None:
        questions.append(progress)
        if len(questions) == 2:
            served.conductor.edit(uuid, task_state=None)

    ended = sdk.compute.wait_for_server(begun, interval=0.01, callback=asked)
    assert (ended.status, ended.task_state, len(questions)) == ("ACTIVE", None, 2)
