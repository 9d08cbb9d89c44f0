"""Creating, scheduling, and builds that fail."""

import msgspec
import pytest

from minova import errors
from minova.db import models
from tests.functional.conductor.desk import CTX, FLAVOR, IMAGE, Desk, request
from tests.functional.scheduler.cloud import named

REQUEST = named("a client's own")


class CreateCases:
    def test_a_request_is_written_whole_before_it_is_answered(self, desk: Desk) -> None:
        made = desk.conductor.create_servers(CTX, request=request(2, metadata={"k": "v"}, availability_zone="z"))
        first, second = made.instance_uuids
        assert desk.state(first) == desk.state(second) == "building/scheduling on None"
        assert [desk.instance(uuid).display_name for uuid in made.instance_uuids] == ["web-1", "web-2"]
        assert desk.instance(first).metadata_ == {"k": "v"}
        assert desk.instance(second).hostname == "web-2"
        assert desk.actions(first) == [("create", None)]
        task = desk.task(second)
        assert task is not None
        assert (task.kind, task.step, task.reservation_id) == ("build", "schedule", made.reservation_id)
        assert desk.scheduler.asked == []

    def test_one_unit_of_work_schedules_all_of_a_request(self, desk: Desk) -> None:
        made = desk.conductor.create_servers(CTX, request=request(3))
        assert len(desk.waiting) == 1
        desk.settle()
        assert desk.scheduler.asked == [(made.instance_uuids, 1, 2)]
        assert [build.instance.uuid for build in desk.hosts["a"].builds] == sorted(
            made.instance_uuids, key=lambda uuid: desk.instance(uuid).id
        )

    def test_the_message_carries_all_that_was_asked(self, desk: Desk) -> None:
        carried = {
            "requested_networks": ({"uuid": "net"},),
            "security_groups": ("default",),
            "injected_files": ({"path": "/x", "contents": "eA=="},),
            "admin_password": "secret",
        }
        (uuid,) = desk.create(1, user_data="dXNlcg==", **carried)
        (build,) = desk.hosts["a"].builds
        assert {name: getattr(build, name) for name in carried} == carried
        assert build.instance.image == IMAGE
        assert build.instance.flavor == FLAVOR
        assert build.instance.user_data == "dXNlcg=="
        assert (build.instance.uuid, build.attempt, build.instance.attempt, build.node) == (uuid, 1, 1, "a-node")
        assert build.limits.memory_mb == 4096.0
        assert [one.host for one in build.alternates] == ["b", "c"]
        assert build.request_spec.retry.hosts == (("a", "a-node"),)

    def test_the_same_request_again_makes_nothing_twice(self, desk: Desk) -> None:
        asked = request(2, request_uuid=REQUEST, body_hash="1")
        first = desk.conductor.create_servers(CTX, request=asked)
        assert desk.conductor.create_servers(CTX, request=asked) == first
        assert desk.count(models.Instance) == 2
        assert len(desk.waiting) == 1

    def test_the_same_request_uuid_with_another_body_is_a_conflict(self, desk: Desk) -> None:
        desk.conductor.create_servers(CTX, request=request(request_uuid=REQUEST, body_hash="1"))
        with pytest.raises(errors.Conflict, match=REQUEST):
            desk.conductor.create_servers(CTX, request=request(request_uuid=REQUEST, body_hash="2"))
        other = msgspec.structs.replace(CTX, project_id="other")
        desk.conductor.create_servers(other, request=request(request_uuid=REQUEST, body_hash="2"))
        assert desk.count(models.Instance) == 2

    def test_a_build_that_goes_well(self, desk: Desk) -> None:
        (uuid,) = desk.create()
        assert desk.state(uuid) == "building/scheduling on None"
        claimed = desk.claim("a", uuid)
        assert (claimed.host, claimed.node, claimed.image) == ("a", "a-node", IMAGE)
        assert desk.state(uuid) == "building/block_device_mapping on a"
        assert (desk.row("a").vcpus_used, desk.row("a").running_vms) == (1, 1)
        desk.conductor.begin_attempt(CTX, instance_uuid=uuid, attempt=1, host="a", step="spawning")
        assert desk.state(uuid) == "building/spawning on a"
        desk.succeed("a", uuid)
        assert desk.state(uuid) == "active/None on a"
        assert desk.instance(uuid).launched_at is not None
        assert desk.task(uuid) is None
        assert desk.actions(uuid) == [("create", "Success")]
        assert desk.allocated() == {uuid: "a"}

    def test_reports_said_twice_are_heard_once(self, desk: Desk) -> None:
        (uuid,) = desk.create()
        desk.claim("a", uuid)
        desk.claim("a", uuid)
        desk.succeed("a", uuid)
        launched_at = desk.instance(uuid).launched_at
        desk.now += 5
        desk.succeed("a", uuid)
        assert desk.instance(uuid).launched_at == launched_at

    def test_a_step_that_is_none_is_refused(self, desk: Desk) -> None:
        (uuid,) = desk.create()
        desk.claim("a", uuid)
        for step in ("dancing", "deleting"):
            with pytest.raises(errors.BadRequest, match=step):
                desk.conductor.begin_attempt(CTX, instance_uuid=uuid, attempt=1, host="a", step=step)


class ScheduleCases:
    def test_no_host_is_an_error_with_the_reason(self, desk: Desk) -> None:
        desk.scheduler.order = []
        (uuid,) = desk.create()
        assert desk.state(uuid) == "error/None on None"
        assert desk.fault(uuid) == "NoValidHost: No valid host was found. 3 hosts: RamFilter removed 3."
        assert desk.actions(uuid) == [("create", "Error")]
        assert desk.task(uuid) is None
        assert desk.count(models.DiagnosisRow) == 1

    def test_the_instances_of_one_request_share_one_diagnosis(self, desk: Desk) -> None:
        desk.scheduler.order = []
        uuids = desk.create(3)
        assert (desk.count(models.DiagnosisRow), desk.count(models.InstanceDiagnosis)) == (1, 3)
        assert {desk.diagnosis(uuid).instance_uuids for uuid in uuids} == {uuids}

    def test_a_scheduler_that_does_not_answer_is_asked_again_with_a_higher_number(self, desk: Desk) -> None:
        desk.scheduler.mood = errors.ServiceUnavailable("No answer in time")
        (uuid,) = desk.create()
        assert desk.state(uuid) == "building/scheduling on None"
        desk.scheduler.mood = None
        desk.tick(desk.conductor, 5)
        assert [number for _, number, _ in desk.scheduler.asked] == [1, 2]
        assert len(desk.hosts["a"].builds) == 1

    def test_an_answer_that_is_lost_leaves_no_second_allocation(self, desk: Desk) -> None:
        desk.scheduler.lose_answer = True
        (uuid,) = desk.create()
        assert desk.allocated() == {uuid: "a"}
        desk.scheduler.lose_answer = False
        desk.scheduler.order = ["b"]
        desk.tick(desk.conductor, 5)
        assert desk.allocated() == {uuid: "b"}
        assert desk.used("a") == {"VCPU": 0, "MEMORY_MB": 0, "DISK_GB": 0}

    def test_it_is_not_asked_for_ever(self, desk: Desk) -> None:
        desk.scheduler.mood = errors.ServiceUnavailable("No answer in time")
        (uuid,) = desk.create()
        for _ in range(40):
            desk.tick(desk.conductor, 60)
        assert desk.state(uuid) == "error/None on None"
        assert desk.fault(uuid) == "NoValidHost: No scheduler has answered in time."

    def test_any_other_failure_ends_this_request_and_no_other(self, desk: Desk) -> None:
        desk.scheduler.mood = RuntimeError("a filter broke")
        (uuid,) = desk.create()
        assert desk.fault(uuid) == "RuntimeError: Scheduling failed: a filter broke"
        assert desk.diagnosis(uuid).error == "Scheduling failed: a filter broke"
        desk.scheduler.mood = None
        (other,) = desk.create()
        assert desk.allocated() == {other: "a"}

    def test_deleted_while_it_is_scheduled_its_allocation_is_given_back(self, desk: Desk) -> None:
        (uuid, other) = desk.conductor.create_servers(CTX, request=request(2)).instance_uuids
        desk.scheduler.before_answer = lambda: desk.delete(uuid)
        desk.settle()
        assert desk.state(uuid) == "deleted/None on None"
        assert desk.allocated() == {other: "a"}
        assert [build.instance.uuid for build in desk.hosts["a"].builds] == [other]

    def test_deleted_before_the_scheduler_claims_the_rest_is_asked_for_again(self, desk: Desk) -> None:
        (uuid, other) = desk.conductor.create_servers(CTX, request=request(2)).instance_uuids
        desk.delete(uuid)
        desk.settle()
        desk.tick(desk.conductor, 5)
        assert desk.scheduler.asked[-1] == ((other,), 2, 2)
        assert desk.scheduler.specs[-1].num_instances == 1
        assert desk.allocated() == {other: "a"}

    @pytest.mark.parametrize("forced", [{"force_host": "a"}, {"force_node": "a-node"}])
    def test_a_forced_host_has_no_alternates(self, desk: Desk, forced: dict[str, str]) -> None:
        desk.create(1, **forced)
        assert desk.scheduler.asked[-1][2] == 0

    @pytest.mark.parametrize(
        ("extra_specs", "named"),
        [
            ({"trait:CUSTOM_A": "perhaps"}, "trait:CUSTOM_A='perhaps'"),
            ({"resources:VCPU": "-1"}, "resources:VCPU='-1'"),
        ],
    )
    def test_what_cannot_be_asked_of_placement_is_refused_before_anything_is_written(
        self, desk: Desk, extra_specs: dict[str, str], named: str
    ) -> None:
        flavor = msgspec.structs.replace(FLAVOR, extra_specs=extra_specs)
        with pytest.raises(errors.BadRequest, match=named):
            desk.conductor.create_servers(CTX, request=request(1, flavor=flavor))
        assert desk.count(models.Instance) == 0


class FailureCases:
    def test_the_next_alternate_is_tried_and_the_allocation_goes_along(self, desk: Desk) -> None:
        (uuid,) = desk.create()
        desk.claim("a", uuid)
        desk.fail("a", uuid)
        assert desk.state(uuid) == "building/scheduling on None"
        assert desk.allocated() == {uuid: "b"}
        (build,) = desk.hosts["b"].builds
        assert (build.attempt, build.node, [one.host for one in build.alternates]) == (2, "b-node", ["c"])
        assert build.request_spec.retry.hosts == (("a", "a-node"), ("b", "b-node"))
        desk.build("b", uuid, attempt=2)
        assert desk.state(uuid) == "active/None on b"

    def test_a_full_alternate_is_skipped(self, desk: Desk) -> None:
        desk.audit("b", vcpus=0, memory_mb=0, local_gb=0)
        (uuid,) = desk.create()
        desk.fail("a", uuid)
        assert desk.allocated() == {uuid: "c"}
        assert [build.attempt for build in desk.hosts["c"].builds] == [2]

    def test_an_alternate_that_is_down_is_skipped(self, desk: Desk) -> None:
        (uuid,) = desk.create()
        desk.conductor.heartbeat(CTX, host="b", binary="minova-compute", down_reason="libvirtd is gone")
        desk.fail("a", uuid)
        assert desk.allocated() == {uuid: "c"}

    def test_too_many_attempts_and_no_host_left_are_told_apart(self, desk: Desk) -> None:
        (uuid,) = desk.create()
        for attempt, host in enumerate("abc", 1):
            desk.fail(host, uuid, attempt, reason=f"reason {attempt}")
        assert desk.state(uuid) == "error/None on None"
        assert desk.fault(uuid).startswith(
            "MaxRetriesExceeded: Exceeded maximum number of retries. Build failed in 3 attempts."
        )
        assert "a: reason 1; b: reason 2; c: reason 3" in desk.fault(uuid)
        assert desk.outcome(uuid).startswith("Error: Exceeded maximum number of retries.")
        assert desk.allocated() == {}
        desk.scheduler.order = ["a"]
        (other,) = desk.create()
        desk.fail("a", other)
        assert desk.fault(other).startswith("NoValidHost: No valid host was found. Build failed in 1 attempt, and no")
        assert desk.outcome(other).startswith("Error: No valid host was found.")

    @pytest.mark.parametrize(
        ("forced", "max_attempts"), [({"force_host": "a"}, 3), ({"force_node": "a-node"}, 3), ({}, 1)]
    )
    def test_without_a_retry_the_reason_of_the_only_attempt_is_the_fault(
        self, desk: Desk, forced: dict[str, str], max_attempts: int
    ) -> None:
        desk.options["scheduler__max_attempts"] = max_attempts
        desk.conductor = desk.start("single")
        (uuid,) = desk.create(1, **forced)
        assert desk.scheduler.asked[-1][2] == 0
        desk.fail("a", uuid, reason="no such CPU")
        assert desk.fault(uuid) == "RescheduledException: a: no such CPU"
        assert desk.outcome(uuid) == "Error: a: no such CPU"
        assert desk.state(uuid) == "error/None on None"
        assert desk.allocated() == {}

    def test_a_reason_that_no_table_takes_ends_the_build_all_the_same(self, desk: Desk) -> None:
        (uuid,) = desk.create()
        for attempt, host in enumerate("abc", 1):
            desk.fail(host, uuid, attempt, reason="qemu said \0" + "\N{SNOWMAN}" * 100_000)
        assert desk.state(uuid) == "error/None on None"
        assert desk.fault(uuid).startswith(
            "MaxRetriesExceeded: Exceeded maximum number of retries. Build failed in 3 attempts."
        )
        assert "a: qemu said \N{REPLACEMENT CHARACTER}\N{SNOWMAN}" in desk.fault(uuid)

    def test_what_no_host_can_build_is_not_tried_elsewhere(self, desk: Desk) -> None:
        (uuid,) = desk.create()
        desk.fail("a", uuid, reason="the image is corrupt", retriable=False)
        assert desk.fault(uuid) == "BuildAbortException: a: the image is corrupt"
        assert desk.hosts["b"].builds == []
        assert desk.allocated() == {}

    def test_late_reports_of_a_given_up_attempt_are_stale(self, desk: Desk) -> None:
        (uuid,) = desk.create()
        desk.claim("a", uuid)
        desk.fail("a", uuid)
        with pytest.raises(errors.StaleAttempt):
            desk.claim("a", uuid)
        with pytest.raises(errors.StaleAttempt):
            desk.conductor.begin_attempt(CTX, instance_uuid=uuid, attempt=1, host="a", step="spawning")
        with pytest.raises(errors.StaleAttempt):
            desk.succeed("a", uuid)
        desk.fail("a", uuid)
        # The message of the next attempt may be sent again with a repeated report, whose first answer may be lost.
        assert {build.attempt for build in desk.hosts["b"].builds} == {2}
        assert desk.hosts["c"].builds == []
        assert desk.allocated() == {uuid: "b"}

    def test_an_attempt_belongs_to_one_host(self, desk: Desk) -> None:
        (uuid,) = desk.create()
        with pytest.raises(errors.StaleAttempt):
            desk.claim("b", uuid)

    def test_a_build_that_takes_too_long_goes_elsewhere(self, desk: Desk) -> None:
        (uuid,) = desk.create()
        desk.claim("a", uuid)
        desk.now += 1801
        desk.beat()
        assert desk.allocated() == {uuid: "b"}

    def test_a_success_of_another_attempt_is_stale_even_from_the_right_host(self, desk: Desk) -> None:
        (uuid,) = desk.create()
        desk.claim("a", uuid)
        for other in (0, 2):
            with pytest.raises(errors.StaleAttempt):
                desk.succeed("a", uuid, attempt=other)
        assert desk.state(uuid) == "building/block_device_mapping on a"
        desk.succeed("a", uuid)
        assert desk.state(uuid) == "active/None on a"

    def test_a_host_that_falls_silent_loses_its_builds(self, desk: Desk) -> None:
        (uuid,) = desk.create()
        for _ in range(8):
            desk.now += 10
            desk.beat("b", "c")
        assert desk.allocated() == {uuid: "b"}

    def test_a_host_that_says_it_cannot_work_loses_its_builds(self, desk: Desk) -> None:
        (uuid,) = desk.create()
        desk.conductor.heartbeat(CTX, host="a", binary="minova-compute", down_reason="libvirtd is gone")
        desk.tick(desk.conductor, 1)
        assert desk.allocated() == {uuid: "b"}
