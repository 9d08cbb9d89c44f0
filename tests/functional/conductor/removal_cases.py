"""Deletion, take-over and purge."""

import pytest

from minova import errors
from minova.conductor.hosts.services import LISTENS_AFTER
from minova.db import models
from minova.objects.servers.states import VmState
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, request
from tests.functional.scheduler.cloud import named

REQUEST = named("a client's own")


class DeleteCases:
    def test_the_host_is_asked_and_its_answer_ends_it(self, harness: ConductorHarness) -> None:
        uuid = harness.active()
        harness.delete(uuid)
        assert harness.state(uuid) == "active/deleting on a"
        assert harness.hosts["a"].terminated == [uuid]
        harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
        harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
        assert harness.instance(uuid).vm_state == "deleted"
        assert harness.instance(uuid).deleted_at is not None
        assert harness.actions(uuid) == [("create", "Success"), ("delete", "Success")]
        assert harness.allocated() == {}
        assert harness.task(uuid) is None

    def test_another_host_cannot_end_it(self, harness: ConductorHarness) -> None:
        uuid = harness.active()
        harness.delete(uuid)
        harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="b")
        assert harness.state(uuid) == "active/deleting on a"

    def test_a_host_that_does_not_answer_is_asked_again(self, harness: ConductorHarness) -> None:
        uuid = harness.active()
        harness.hosts["a"].deaf = True
        harness.delete(uuid)
        harness.hosts["a"].deaf = False
        harness.tick(harness.conductor, 20)
        assert harness.hosts["a"].terminated == [uuid]

    def test_a_host_whose_compute_is_started_again_is_asked_within_seconds(self, harness: ConductorHarness) -> None:
        uuid = harness.active()
        harness.delete(uuid)
        harness.register("a")
        harness.tick(harness.conductor, LISTENS_AFTER)
        assert harness.hosts["a"].terminated == [uuid, uuid]

    def test_deleting_what_is_being_deleted_is_no_error(self, harness: ConductorHarness) -> None:
        uuid = harness.active()
        harness.delete(uuid)
        harness.delete(uuid)
        assert harness.actions(uuid) == [("create", "Success"), ("delete", None)]

    def test_what_is_gone_is_not_found(self, harness: ConductorHarness) -> None:
        uuid = harness.active()
        harness.delete(uuid)
        harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
        for gone in (uuid, named("never was")):
            with pytest.raises(errors.NotFound, match=gone):
                harness.delete(gone)

    def test_in_the_middle_of_a_build_its_reports_become_stale(self, harness: ConductorHarness) -> None:
        (uuid,) = harness.create()
        harness.delete(uuid)
        assert harness.hosts["a"].terminated == [uuid]
        with pytest.raises(errors.StaleAttempt):
            harness.claim("a", uuid)
        harness.fail("a", uuid)
        harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
        assert harness.state(uuid) == "deleted/None on None"
        assert harness.allocated() == {}
        assert harness.actions(uuid) == [("create", "Error"), ("delete", "Success")]

    def test_without_a_living_host_it_ends_at_once(self, harness: ConductorHarness) -> None:
        uuid = harness.active()
        with harness.db.read() as session:
            service = session.query(models.Service).filter_by(host="a").one()
        harness.conductor.update_service(CTX, service_uuid=service.uuid, forced_down=True)
        harness.delete(uuid)
        assert harness.instance(uuid).vm_state == "deleted"
        assert harness.hosts["a"].terminated == []
        assert harness.conductor.begin_audit(CTX, host="a", view=harness.view("a", uuid)).unexpected_domains == (uuid,)

    def test_a_host_that_dies_before_it_answers_does_not_hold_it(self, harness: ConductorHarness) -> None:
        uuid = harness.active()
        harness.delete(uuid)
        for _ in range(8):
            harness.now += 10
            harness.beat("b", "c")
        harness.tick(harness.conductor, 10)
        assert harness.instance(uuid).vm_state == "deleted"
        assert harness.allocated() == {}

    def test_one_in_error_is_deleted_at_once(self, harness: ConductorHarness) -> None:
        harness.scheduler.order = []
        (uuid,) = harness.create()
        harness.delete(uuid)
        assert harness.instance(uuid).vm_state == "deleted"


class TakeOverCases:
    def test_a_conductor_that_dies_before_it_schedules(self, harness: ConductorHarness) -> None:
        harness.conductor.create_servers(CTX, request=request(2))
        harness.kill("one")
        other = harness.start("two")
        harness.tick(other, 5)
        assert harness.hosts["a"].builds == []
        harness.tick(other, 31)
        # Its own lease was not renewed for as long: it gives the others time to renew theirs.
        harness.tick(other, 3)
        assert [number for _, number, _ in harness.scheduler.asked] == [2]
        assert len(harness.hosts["a"].builds) == 2

    def test_its_successor_on_the_same_host_need_not_wait(self, harness: ConductorHarness) -> None:
        harness.conductor.create_servers(CTX, request=request())
        harness.kill("one")
        harness.start("one")
        harness.settle()
        assert len(harness.hosts["a"].builds) == 1

    def test_one_that_dies_between_intent_and_cast(self, harness: ConductorHarness) -> None:
        harness.hosts["a"].deaf = True
        (uuid,) = harness.create()
        harness.hosts["a"].deaf = False
        assert harness.conductor.begin_audit(CTX, host="a", view=harness.view("a")).attempts[0].instance.uuid == uuid
        harness.start("one")
        harness.settle()
        assert [build.instance.uuid for build in harness.hosts["a"].builds] == [uuid]

    def test_one_that_comes_too_late_changes_nothing(self, harness: ConductorHarness) -> None:
        """Its lease ran out while the scheduler thought; another has gone on meanwhile."""
        harness.conductor.create_servers(CTX, request=request())
        harness.now += 31
        other = harness.start("two")
        harness.scheduler.order = ["b"]
        late = harness.waiting.pop(0)[1]
        assert [who for who, _ in harness.waiting] == ["two"]
        harness.settle()
        harness.scheduler.order = ["a"]
        late()
        assert harness.hosts["a"].builds == []
        assert len(harness.hosts["b"].builds) == 1
        assert set(harness.allocated().values()) == {"b"}
        assert other is not None

    def test_what_it_began_before_it_lost_a_task_is_void_though_the_task_came_back(
        self, harness: ConductorHarness
    ) -> None:
        harness.conductor.create_servers(CTX, request=request())
        late = harness.waiting.pop()[1]
        harness.now += 31
        other = harness.start("two")
        harness.kill("two")
        harness.scheduler.mood = errors.ServiceUnavailable("No answer in time")
        other.stop()
        harness.tick(harness.conductor, 1)
        harness.scheduler.mood = None
        late()
        assert harness.hosts["a"].builds == []
        harness.tick(harness.conductor, 10)
        harness.tick(harness.conductor, 3)
        assert len(harness.hosts["a"].builds) == 1

    def test_one_that_stops_gives_its_tasks_away_at_once(self, harness: ConductorHarness) -> None:
        uuid = harness.active()
        harness.hosts["a"].deaf = True
        harness.delete(uuid)
        harness.hosts["a"].deaf = False
        other = harness.start("two")
        harness.conductor.stop()
        harness.tick(other, 1)
        assert harness.hosts["a"].terminated == [uuid]

    def test_a_living_one_keeps_its_tasks(self, harness: ConductorHarness) -> None:
        (uuid,) = harness.create()
        other = harness.start("two")
        for _ in range(10):
            harness.beat()
            harness.tick(harness.conductor, 5)
            harness.tick(other, 5)
        task = harness.task(uuid)
        assert task is not None
        assert (task.worker_id, task.epoch) == (harness.conductor.worker.id, 1)


class PurgeCases:
    def test_what_is_older_than_its_retention_goes(self, harness: ConductorHarness) -> None:
        uuid = harness.active()
        kept = harness.active()
        harness.delete(uuid)
        harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
        harness.tick(harness.conductor, 2592000 - 10)
        assert harness.instance(uuid).vm_state == VmState.DELETED
        harness.tick(harness.conductor, 20)
        assert harness.count(models.Instance) == 1
        assert harness.actions(uuid) == []
        assert harness.actions(kept) == [("create", "Success")]
        assert harness.count(models.DiagnosisRow) == 0
        assert harness.count(models.RequestSpecRow) == 1
        assert harness.count(models.Consumer) == 1
