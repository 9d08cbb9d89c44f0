"""What people read of a failure names no host, path, address, program or exception (CVE-2019-14433); administrators read all."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bcrypt
import falcon.testing
import pytest

from minova import conf as configuration
from minova import errors
from minova.api.app import make_app
from minova.context import RequestContext
from minova.db import models
from minova.db.engine import Database
from minova.objects.actions.power import STOP
from minova.objects.servers.failures import INTERNAL_ERROR, TEXTS, UNKNOWN, kind_of, text_of
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.security.identities import PASSWORD, login
from tests.tables import make_tables

HOST = "hv-secret-7"
SECRETS = (
    "/var/lib/minova/instances/0b5e/disk.part",
    "qemu+tcp://10.11.12.13/system",
    "<domain type='kvm'><seclabel/></domain>",
    "libvirtError: internal error",
    "Traceback (most recent call last)",
    HOST,
    f"{HOST}-node",
)
REASON = f"{HOST}: qemu-img failed: " + "; ".join(SECRETS)
# As a host of an older release, or a hostile one, names it.
STRANGE = ("", "NoSuchKind", REASON[:64], "<b>x</b>")
KINDS = (*sorted(TEXTS), *STRANGE)


class World:
    """A conductor and the API over its tables, with an administrator and the user `demo`, whose servers these are."""

    def __init__(self, folder: Path) -> None:
        url = f"sqlite:///{folder}/minova.sqlite"
        make_tables(url)
        self.harness = ConductorHarness(url, hosts=(HOST, f"{HOST}-b"))
        hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
        (folder / "htpasswd").write_text(f"admin:{hashed}\ndemo:{hashed}\n")
        conf = configuration.load([], "test", files=[])
        conf.set_override("state_path", str(folder))
        conf.set_override("auth_strategy", "http_basic", group="api")
        conf.set_override("http_basic_auth_user_file", str(folder / "htpasswd"), group="api")
        self.readonly = Database(url, readonly=True)
        self.console_error: Exception = errors.NotFound("x")
        app = make_app(conf, self.readonly, self.harness.conductor, self._compute)
        self.client = falcon.testing.TestClient(app)

    def _compute(self, host: str) -> Any:
        world = self

        class Compute:
            def get_console_output(self, ctx: RequestContext, instance_uuid: str, tail_length: int | None) -> str:
                raise world.console_error

        return Compute()

    def close(self) -> None:
        self.readonly.close()
        self.harness.close()

    def read(self, user: str, path: str) -> tuple[int, Any]:
        result = self.client.simulate_get(path, headers=login(user))
        return result.status_code, result.json

    def all_of(self, user: str, uuid: str) -> str:
        """All that the user can read of the server."""
        paths = ("/v2.1/servers/{}", "/v2.1/servers/{}/diagnosis", "/v2.1/servers/detail")
        return json.dumps([self.read(user, path.format(uuid))[1] for path in paths])

    def remove(self, uuid: str) -> None:
        self.harness.delete(uuid)
        self.harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host=HOST)

    def fault(self, user: str, uuid: str) -> Any:
        return self.read(user, f"/v2.1/servers/{uuid}")[1]["server"]["fault"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("world"))
    yield world
    world.close()


def assert_nothing_is_told(text: str) -> None:
    assert [secret for secret in SECRETS if secret in text or json.dumps(secret)[1:-1] in text] == []
    assert "hv-secret" not in text
    assert "qemu" not in text.lower()


def failed_build(world: World, kind: str) -> str:
    (uuid,) = world.harness.create()
    for number, host in enumerate((HOST, f"{HOST}-b"), start=1):
        world.harness.fail(host, uuid, attempt=number, reason=REASON, kind=kind)
    return uuid


def failed_delete(world: World, kind: str) -> str:
    uuid = world.harness.active(HOST)
    world.harness.delete(uuid)
    world.harness.conductor.delete_failed(CTX, instance_uuid=uuid, host=HOST, reason=REASON, kind=kind)
    return uuid


def delete_given_up(world: World, kind: str) -> str:
    """After `delete_timeout` the server is in ERROR."""
    uuid = failed_delete(world, kind)
    while world.harness.task(uuid) is not None:
        world.harness.now += 100
        world.harness.beat()
    return uuid


def failed_action(world: World, kind: str) -> str:
    uuid = world.harness.active(HOST)
    action = world.harness.act(uuid, STOP.kind)
    report: dict[str, Any] = {"instance_uuid": uuid, "action_id": action, "host": HOST}
    world.harness.conductor.begin_action(CTX, **report)
    world.harness.conductor.action_failed(CTX, **report, reason=REASON, kind=kind)
    return uuid


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fail", [failed_build, failed_delete])
def test_people_read_the_kind_and_administrators_all(
    world: World, fail: Callable[[World, str], str], kind: str
) -> None:
    uuid = fail(world, kind)
    assert_nothing_is_told(world.all_of("demo", uuid))
    fault = world.fault("demo", uuid)
    assert text_of(kind) in fault["message"]
    assert "details" not in fault
    seen_by_admin = world.fault("admin", uuid)
    assert seen_by_admin["message"] == fault["message"]
    assert REASON in seen_by_admin["details"]
    world.remove(uuid)


@pytest.mark.parametrize("fail", [failed_action, delete_given_up])
def test_actions_and_deletes_without_end(world: World, fail: Callable[[World, str], str]) -> None:
    uuid = fail(world, "HypervisorUnavailable")
    assert_nothing_is_told(world.all_of("demo", uuid))
    with world.harness.db.read() as session:
        query = session.query(models.InstanceAction).where(models.InstanceAction.instance_uuid == uuid)
        messages = [row.message or "" for row in query]
        faults = [
            row.message for row in session.query(models.InstanceFault).where(models.InstanceFault.instance_uuid == uuid)
        ]
    assert_nothing_is_told(" ".join(messages + faults))
    world.remove(uuid)


def test_what_an_older_conductor_has_written_is_for_administrators(world: World) -> None:
    uuid = failed_build(world, "DiskFull")
    with world.harness.db.write() as session:
        for event in session.query(models.InstanceActionEvent):
            event.kind = None
        for fault in session.query(models.InstanceFault).where(models.InstanceFault.instance_uuid == uuid):
            fault.message, fault.details, fault.kind = REASON, "BuildAbortException", None
    assert_nothing_is_told(world.all_of("demo", uuid))
    assert world.fault("demo", uuid)["message"] == UNKNOWN
    assert world.fault("admin", uuid)["message"] == REASON


def test_scheduler_that_fails_tells_people_no_exception(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError(REASON)

    monkeypatch.setattr(world.harness.scheduler, "select_destinations", broken)
    (uuid,) = world.harness.create()
    assert_nothing_is_told(world.all_of("demo", uuid))
    assert world.fault("demo", uuid)["message"] == text_of("SchedulingFailed")
    assert REASON in world.fault("admin", uuid)["details"]


@pytest.mark.parametrize(
    "error",
    [
        errors.NotFound(REASON),
        errors.HypervisorUnavailable(REASON),
        errors.ServiceUnavailable(REASON),
        errors.DiskFull(REASON),
        errors.MinovaError(REASON),
        RuntimeError(REASON),
    ],
    ids=lambda error: type(error).__name__,
)
def test_console_log_that_cannot_be_read(world: World, error: Exception) -> None:
    uuid = world.harness.active(HOST)
    world.console_error = error
    answers = {}
    for user in ("demo", "admin"):
        headers = {"Content-Type": "application/json", **login(user)}
        body = json.dumps({"os-getConsoleOutput": {}})
        answers[user] = world.client.simulate_post(f"/v2.1/servers/{uuid}/action", body=body, headers=headers)
    assert_nothing_is_told(answers["demo"].text)
    assert answers["demo"].status_code == answers["admin"].status_code == getattr(error, "code", 500)
    world.remove(uuid)


def test_each_error_of_a_host_has_a_kind_with_a_text() -> None:
    for error in (errors.StaleAttempt("x"), errors.NoAnswer("x"), errors.ImageUnacceptable("x"), errors.DiskFull("x")):
        assert kind_of(error) in TEXTS
        assert kind_of(error) != INTERNAL_ERROR
    assert kind_of(RuntimeError(REASON)) == kind_of(errors.MinovaError(REASON)) == INTERNAL_ERROR
    for text in (*TEXTS.values(), UNKNOWN):
        assert_nothing_is_told(text)
