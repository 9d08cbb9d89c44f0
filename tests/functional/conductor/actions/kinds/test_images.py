"""The record of an image that an action makes: written with the task, complete or gone with its end."""

from typing import Any

import msgspec
import pytest

from minova import errors
from minova.db import models, quotas
from minova.db.catalogue import image_token_keys
from minova.image_tokens import Right, TokenRefused, image_of
from minova.objects.actions.images import CREATE_IMAGE
from minova.objects.catalogue.image import Image
from minova.objects.servers.server_changes import ServerChanges
from minova.objects.servers.states import VmState
from tests.fakes.action_arguments import sent_with
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, new_request
from tests.functional.scheduler.cloud import named

USED = "image_count_total"


class Snapshot:
    """A snapshot of an active server, which its host has begun."""

    def __init__(self, harness: ConductorHarness) -> None:
        self.harness = harness
        self.uuid = harness.active()
        arguments: Any = sent_with(CREATE_IMAGE)
        self.image = msgspec.convert(arguments["image"], Image)
        harness.conductor.start_action(new_request(), instance_uuid=self.uuid, action="snapshot", arguments=arguments)
        self.report: dict[str, Any] = {
            "instance_uuid": self.uuid,
            "action_id": harness.action_id(self.uuid),
            "host": "a",
        }
        harness.conductor.begin_action(CTX, **self.report)

    @property
    def status(self) -> str | None:
        with self.harness.db.read() as session:
            row = session.get(models.Image, self.image.id)
            return None if row is None else row.status

    @property
    def counted(self) -> int:
        with self.harness.db.read() as session:
            return quotas.usages_of(session, "p").get(USED, 0)

    def become(self, status: str, expected: str) -> None:
        image = msgspec.structs.replace(self.image, status=status, size=1 << 20)
        self.harness.conductor.update_image(CTX, image=image, expected_status=expected)

    def uploaded(self) -> None:
        self.become("saving", "queued")
        self.become("active", "saving")

    def token(self, **wrong: str) -> str:
        token_request: Any = {"instance_uuid": self.uuid, "image_id": self.image.id, "host": "a", **wrong}
        return self.harness.conductor.image_upload_token(CTX, **token_request)


@pytest.fixture
def snapshot(harness: ConductorHarness) -> Snapshot:
    return Snapshot(harness)


def test_an_image_is_there_with_the_task_and_counts(snapshot: Snapshot) -> None:
    assert (snapshot.status, snapshot.counted) == ("queued", 1)
    assert snapshot.harness.state(snapshot.uuid) == "active/image_snapshot on a"


def test_its_host_tells_how_far_it_is_and_gets_its_time_again(snapshot: Snapshot) -> None:
    harness, conductor = snapshot.harness, snapshot.harness.conductor
    before = harness.task(snapshot.uuid)
    assert before is not None
    harness.now += 100.0
    for step in ("image_pending_upload", "image_uploading"):
        for _ in range(2):
            conductor.action_progressed(CTX, **snapshot.report, task_state=step)
            assert harness.state(snapshot.uuid) == f"active/{step} on a"
    conductor.action_progressed(CTX, **snapshot.report, task_state="image_pending_upload")
    conductor.begin_action(CTX, **snapshot.report)
    assert harness.state(snapshot.uuid) == "active/image_uploading on a"
    after = harness.task(snapshot.uuid)
    assert after is not None
    assert after.deadline > before.deadline
    with pytest.raises(errors.StaleAttempt):
        conductor.action_progressed(CTX, **snapshot.report | {"host": "b"}, task_state="image_uploading")
    conductor.action_failed(CTX, **snapshot.report, reason="no")
    with pytest.raises(errors.StaleAttempt):
        conductor.action_progressed(CTX, **snapshot.report, task_state="image_uploading")


class Backups:
    """Backups of one server, of which each is done at once."""

    def __init__(self, harness: ConductorHarness) -> None:
        self.harness, self.uuid, self.made = harness, harness.active(), 0

    def make(self, kind: str = "daily", rotation: int = 2, said: str = "", **more: Any) -> str:
        """`said`: what the image says that its server is."""
        self.harness.now += 1.0
        self.made += 1
        properties = {"instance_uuid": said or self.uuid, "image_type": "backup", "backup_type": kind}
        image = Image(**{"id": named(f"backup {self.made}"), "owner": "p", "properties": properties, **more})
        arguments = {"image": msgspec.to_builtins(image), "rotation": rotation}
        conductor = self.harness.conductor
        conductor.start_action(new_request(), instance_uuid=self.uuid, action="backup", arguments=arguments)
        report: Any = {"instance_uuid": self.uuid, "action_id": self.harness.action_id(self.uuid), "host": "a"}
        conductor.begin_action(CTX, **report)
        active = msgspec.structs.replace(image, status="active", size=1 << 20)
        conductor.update_image(CTX, image=active, expected_status="queued")
        conductor.action_succeeded(CTX, **report, power_state=1)
        return image.id

    def left(self) -> set[str]:
        with self.harness.db.read() as session:
            return {row.id for row in session.query(models.Image)}


def test_the_newest_backups_of_each_type_stay(harness: ConductorHarness) -> None:
    backups = Backups(harness)
    weekly = backups.make("weekly", 1)
    first, second, third = (backups.make() for _ in range(3))
    assert backups.left() == {weekly, second, third}
    assert first not in backups.left()
    others = Backups(harness)
    others.made = 10
    other = others.make(rotation=1)
    assert backups.left() == {weekly, second, third, other}
    with harness.db.read() as session:
        assert quotas.usages_of(session, "p")[USED] == 4
        assert quotas.usages_of(session, "p")["image_size_total"] == 4


def test_bug_backup_removed_itself_after_a_backup_by_a_conductor_whose_clock_is_ahead(
    harness: ConductorHarness,
) -> None:
    backups = Backups(harness)
    backups.make()
    harness.host_step = -7200.0
    newest = backups.make(rotation=1)
    assert backups.left() == {newest}


def test_a_rotation_of_none_leaves_none_and_a_protected_backup_stays(harness: ConductorHarness) -> None:
    backups = Backups(harness)
    protected = backups.make(protected=True)
    backups.make(rotation=0)
    assert backups.left() == {protected}


@pytest.mark.parametrize("owner", ["p", "other"])
def test_a_backup_that_says_another_server_removes_none_of_that_server(harness: ConductorHarness, owner: str) -> None:
    victim, attacker = Backups(harness), Backups(harness)
    attacker.made = 10
    kept = {victim.make(), victim.make()}
    attacker.make(said=victim.uuid, rotation=0, owner=owner)
    assert kept <= victim.left()


def test_images_of_other_projects_neither_count_as_backups_nor_go(harness: ConductorHarness) -> None:
    """Each project may write any property into its images."""
    backups = Backups(harness)
    first = backups.make()
    harness.now += 1.0
    properties = {"instance_uuid": backups.uuid, "image_type": "backup", "backup_type": "daily"}
    forged = [Image(id=named(f"forged {number}"), owner="other", properties=properties) for number in range(3)]
    for image in forged:
        harness.conductor.create_image(CTX, image=image)
    second = backups.make()
    assert backups.left() == {first, second, *(image.id for image in forged)}
    third = backups.make(rotation=1)
    assert backups.left() == {third, *(image.id for image in forged)}


@pytest.mark.parametrize("status", ["queued", "saving"])
@pytest.mark.parametrize("end", ["fail", "delete", "reset", "expire"])
def test_an_image_goes_with_an_action_that_does_not_make_it(snapshot: Snapshot, status: str, end: str) -> None:
    harness = snapshot.harness
    if status == "saving":
        snapshot.become("saving", "queued")
    if end == "fail":
        harness.conductor.action_failed(CTX, **snapshot.report, reason="the disk is full")
        assert "On host a the server could not be made into an image: the disk is full" in harness.fault(snapshot.uuid)
    elif end == "delete":
        harness.delete(snapshot.uuid)
    elif end == "reset":
        harness.conductor.reset_server_state(CTX, instance_uuid=snapshot.uuid, vm_state="active")
    else:
        task = harness.task(snapshot.uuid)
        assert task is not None
        harness.now += 10_000.0
        harness.conductor.collaborators.actions.resume(CTX, snapshot.uuid, task.action_id, task.epoch)
        assert snapshot.status == status, "the action goes on until its host has acknowledged the cancellation"
        assert (snapshot.uuid, task.action_id) in harness.hosts["a"].cancellations
        harness.conductor.action_failed(CTX, **snapshot.report, reason="it did not begin in time")
    assert (snapshot.status, snapshot.counted) == (None, 0)
    assert ("createImage", "Error") in harness.actions(snapshot.uuid)
    # The upload that is still under way is told so, and its bytes go.
    with pytest.raises(errors.NotFound):
        snapshot.become("active", "saving")


def test_an_image_with_all_its_bytes_stays_whatever_comes_then(snapshot: Snapshot) -> None:
    snapshot.uploaded()
    snapshot.harness.delete(snapshot.uuid)
    assert (snapshot.status, snapshot.counted) == ("active", 1)


def test_a_host_that_was_interrupted_after_the_upload_does_it_not_again(snapshot: Snapshot) -> None:
    harness = snapshot.harness
    snapshot.uploaded()
    harness.conductor.begin_action(CTX, **snapshot.report)
    with pytest.raises(errors.Conflict, match="has all its bytes"):
        snapshot.token()
    harness.conductor.action_succeeded(CTX, **snapshot.report, power_state=1)
    assert (harness.state(snapshot.uuid), harness.task(snapshot.uuid)) == ("active/None on a", None)
    assert harness.actions(snapshot.uuid)[-1] == ("createImage", "Success")


def test_no_image_is_left_by_a_refusal(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.conductor.update_quota_set(CTX, project_id="p", limits={USED: 0}, force=True)
    with pytest.raises(errors.Forbidden, match=USED):
        harness.act(uuid, "snapshot")
    assert (harness.state(uuid), harness.count(models.Image)) == ("active/None on a", 0)
    harness.conductor.update_quota_set(CTX, project_id="p", limits={USED: 5}, force=True)
    harness.bring_to(uuid, VmState.RESCUED)
    with pytest.raises(errors.Conflict, match=f"Cannot 'createImage' instance {uuid} while it is in vm_state rescued"):
        harness.act(uuid, "snapshot")
    assert harness.count(models.Image) == 0


def test_a_locked_server_may_be_made_into_an_image(harness: ConductorHarness) -> None:
    """As in Nova: a lock is against changes and deletions."""
    uuid = harness.active()
    harness.conductor.update_server(CTX, instance_uuid=uuid, changes=ServerChanges(lock=True))
    harness.act(uuid, "snapshot")
    assert harness.state(uuid) == "active/image_snapshot_pending on a"


def test_its_host_alone_gets_a_token_for_the_upload(snapshot: Snapshot) -> None:
    harness = snapshot.harness
    keys = image_token_keys.ensure(harness.db)
    token = snapshot.token()
    assert image_of(token, keys, Right.UPLOAD) == snapshot.image.id
    with pytest.raises(TokenRefused):
        image_of(token, keys)
    other = Image(id="5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2eff", owner="p")
    harness.conductor.create_image(CTX, image=other)
    for wrong in ({"host": "b"}, {"image_id": other.id}, {"instance_uuid": harness.active()}):
        with pytest.raises(errors.StaleAttempt):
            snapshot.token(**wrong)
    harness.conductor.delete_image(CTX, image_id=snapshot.image.id)
    with pytest.raises(errors.NotFound):
        snapshot.token()
    harness.conductor.action_failed(CTX, **snapshot.report, reason="the image is deleted")
    with pytest.raises(errors.StaleAttempt):
        snapshot.token()
