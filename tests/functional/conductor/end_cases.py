"""Deletion, take-over and purge."""

import pytest

from minova import errors
from minova.db import models
from minova.objects.states import VmState
from tests.functional.conductor.desk import CTX, Desk, request
from tests.functional.scheduler.cloud import named

REQUEST = named("a client's own")


class DeleteCases:
    def test_the_host_is_asked_and_its_answer_ends_it(self, desk: Desk) -> None:
        uuid = desk.active()
        desk.delete(uuid)
        assert desk.state(uuid) == "active/deleting on a"
        assert desk.hosts["a"].terminated == [uuid]
        desk.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
        desk.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
        assert desk.instance(uuid).vm_state == "deleted"
        assert desk.instance(uuid).deleted_at is not None
        assert desk.actions(uuid) == [("create", "Success"), ("delete", "Success")]
        assert desk.allocated() == {}
        assert desk.task(uuid) is None

    def test_another_host_cannot_end_it(self, desk: Desk) -> None:
        uuid = desk.active()
        desk.delete(uuid)
        desk.conductor.instance_deleted(CTX, instance_uuid=uuid, host="b")
        assert desk.state(uuid) == "active/deleting on a"

    def test_a_host_that_does_not_answer_is_asked_again(self, desk: Desk) -> None:
        uuid = desk.active()
        desk.hosts["a"].deaf = True
        desk.delete(uuid)
        desk.hosts["a"].deaf = False
        desk.tick(desk.conductor, 20)
        assert desk.hosts["a"].terminated == [uuid]

    def test_deleting_what_is_being_deleted_is_no_error(self, desk: Desk) -> None:
        uuid = desk.active()
        desk.delete(uuid)
        desk.delete(uuid)
        assert desk.actions(uuid) == [("create", "Success"), ("delete", None)]

    def test_what_is_gone_is_not_found(self, desk: Desk) -> None:
        uuid = desk.active()
        desk.delete(uuid)
        desk.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
        for gone in (uuid, named("never was")):
            with pytest.raises(errors.NotFound, match=gone):
                desk.delete(gone)

    def test_in_the_middle_of_a_build_its_reports_become_stale(self, desk: Desk) -> None:
        (uuid,) = desk.create()
        desk.delete(uuid)
        assert desk.hosts["a"].terminated == [uuid]
        with pytest.raises(errors.StaleAttempt):
            desk.claim("a", uuid)
        desk.fail("a", uuid)
        desk.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
        assert desk.state(uuid) == "deleted/None on None"
        assert desk.allocated() == {}
        assert desk.actions(uuid) == [("create", "Error"), ("delete", "Success")]

    def test_without_a_living_host_it_ends_at_once(self, desk: Desk) -> None:
        uuid = desk.active()
        with desk.db.read() as session:
            service = session.query(models.Service).filter_by(host="a").one()
        desk.conductor.update_service(CTX, service_uuid=service.uuid, forced_down=True)
        desk.delete(uuid)
        assert desk.instance(uuid).vm_state == "deleted"
        assert desk.hosts["a"].terminated == []
        assert desk.conductor.begin_audit(CTX, host="a", view=desk.view("a", uuid)).unexpected_domains == (uuid,)

    def test_a_host_that_dies_before_it_answers_does_not_hold_it(self, desk: Desk) -> None:
        uuid = desk.active()
        desk.delete(uuid)
        for _ in range(8):
            desk.now += 10
            desk.beat("b", "c")
        desk.tick(desk.conductor, 10)
        assert desk.instance(uuid).vm_state == "deleted"
        assert desk.allocated() == {}

    def test_one_in_error_is_deleted_at_once(self, desk: Desk) -> None:
        desk.scheduler.order = []
        (uuid,) = desk.create()
        desk.delete(uuid)
        assert desk.instance(uuid).vm_state == "deleted"


class TakeOverCases:
    def test_a_conductor_that_dies_before_it_schedules(self, desk: Desk) -> None:
        desk.conductor.create_servers(CTX, request=request(2))
        desk.kill("one")
        other = desk.start("two")
        desk.tick(other, 5)
        assert desk.hosts["a"].builds == []
        desk.tick(other, 31)
        # Its own lease was not renewed for as long: it gives the others time to renew theirs.
        desk.tick(other, 3)
        assert [number for _, number, _ in desk.scheduler.asked] == [2]
        assert len(desk.hosts["a"].builds) == 2

    def test_its_successor_on_the_same_host_need_not_wait(self, desk: Desk) -> None:
        desk.conductor.create_servers(CTX, request=request())
        desk.kill("one")
        desk.start("one")
        desk.settle()
        assert len(desk.hosts["a"].builds) == 1

    def test_one_that_dies_between_intent_and_cast(self, desk: Desk) -> None:
        desk.hosts["a"].deaf = True
        (uuid,) = desk.create()
        desk.hosts["a"].deaf = False
        assert desk.conductor.begin_audit(CTX, host="a", view=desk.view("a")).attempts[0].instance.uuid == uuid
        desk.start("one")
        desk.settle()
        assert [build.instance.uuid for build in desk.hosts["a"].builds] == [uuid]

    def test_one_that_comes_too_late_changes_nothing(self, desk: Desk) -> None:
        """Its lease ran out while the scheduler thought; another has gone on meanwhile."""
        desk.conductor.create_servers(CTX, request=request())
        desk.now += 31
        other = desk.start("two")
        desk.scheduler.order = ["b"]
        late = desk.waiting.pop(0)[1]
        assert [who for who, _ in desk.waiting] == ["two"]
        desk.settle()
        desk.scheduler.order = ["a"]
        late()
        assert desk.hosts["a"].builds == []
        assert len(desk.hosts["b"].builds) == 1
        assert set(desk.allocated().values()) == {"b"}
        assert other is not None

    def test_what_it_began_before_it_lost_a_task_is_void_though_the_task_came_back(self, desk: Desk) -> None:
        desk.conductor.create_servers(CTX, request=request())
        late = desk.waiting.pop()[1]
        desk.now += 31
        other = desk.start("two")
        desk.kill("two")
        desk.scheduler.mood = errors.ServiceUnavailable("No answer in time")
        other.stop()
        desk.tick(desk.conductor, 1)
        desk.scheduler.mood = None
        late()
        assert desk.hosts["a"].builds == []
        desk.tick(desk.conductor, 10)
        desk.tick(desk.conductor, 3)
        assert len(desk.hosts["a"].builds) == 1

    def test_one_that_stops_gives_its_tasks_away_at_once(self, desk: Desk) -> None:
        uuid = desk.active()
        desk.hosts["a"].deaf = True
        desk.delete(uuid)
        desk.hosts["a"].deaf = False
        other = desk.start("two")
        desk.conductor.stop()
        desk.tick(other, 1)
        assert desk.hosts["a"].terminated == [uuid]

    def test_a_living_one_keeps_its_tasks(self, desk: Desk) -> None:
        (uuid,) = desk.create()
        other = desk.start("two")
        for _ in range(10):
            desk.beat()
            desk.tick(desk.conductor, 5)
            desk.tick(other, 5)
        task = desk.task(uuid)
        assert task is not None
        assert (task.worker_id, task.epoch) == (desk.conductor.worker.id, 1)


class PurgeCases:
    def test_what_is_older_than_its_retention_goes(self, desk: Desk) -> None:
        uuid = desk.active()
        kept = desk.active()
        desk.delete(uuid)
        desk.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
        desk.tick(desk.conductor, 2592000 - 10)
        assert desk.instance(uuid).vm_state == VmState.DELETED
        desk.tick(desk.conductor, 20)
        assert desk.count(models.Instance) == 1
        assert desk.actions(uuid) == []
        assert desk.actions(kept) == [("create", "Success")]
        assert desk.count(models.DiagnosisRow) == 0
        assert desk.count(models.RequestSpecRow) == 1
        assert desk.count(models.Consumer) == 1
