"""Creating, scheduling, and builds that fail."""

import msgspec
import pytest
from sqlalchemy import select

from minova import errors
from minova.db import models
from minova.db.servers import instances
from minova.objects.requests.build_extras import GuestFile, RequestedNic
from minova.objects.servers.failures import UNKNOWN, text_of
from tests.functional.conductor.conductor_harness import CTX, FLAVOR, IMAGE, ConductorHarness, request
from tests.functional.conductor.network_cases import network, subnet
from tests.functional.scheduler.cloud import named

REQUEST = named("a client's own")


class CreateCases:
    def test_a_request_is_written_whole_before_it_is_answered(self, harness: ConductorHarness) -> None:
        created = harness.conductor.create_servers(CTX, request=request(2, metadata={"k": "v"}, availability_zone="z"))
        first, second = created.instance_uuids
        assert harness.state(first) == harness.state(second) == "building/scheduling on None"
        assert [harness.instance(uuid).display_name for uuid in created.instance_uuids] == ["web-1", "web-2"]
        assert harness.instance(first).metadata_ == {"k": "v"}
        assert harness.instance(second).hostname == "web-2"
        assert harness.actions(first) == [("create", None)]
        task = harness.task(second)
        assert task is not None
        assert (task.kind, task.step, task.reservation_id) == ("build", "schedule", created.reservation_id)
        assert harness.scheduler.asked == []

    def test_one_unit_of_work_schedules_all_of_a_request(self, harness: ConductorHarness) -> None:
        created = harness.conductor.create_servers(CTX, request=request(3))
        assert len(harness.waiting) == 1
        harness.settle()
        assert harness.scheduler.asked == [(created.instance_uuids, 1, 2)]
        assert [build.instance.uuid for build in harness.hosts["a"].builds] == sorted(
            created.instance_uuids, key=lambda uuid: harness.instance(uuid).id
        )

    def test_the_message_carries_all_that_was_asked(self, harness: ConductorHarness) -> None:
        blue = network(harness)
        subnet(harness, blue, "10.1.0.0/24")
        carried = {
            "requested_networks": (RequestedNic(network_id=blue.id),),
            "security_groups": ("default",),
            "injected_files": (GuestFile(path="/x", contents="eA=="),),
            "admin_password": "secret",
        }
        (uuid,) = harness.create(1, user_data="dXNlcg==", **carried)
        (build,) = harness.hosts["a"].builds
        assert {name: getattr(build, name) for name in carried} == carried
        # The interfaces come with the claim, as they are then.
        assert [vif.network_id for vif in harness.claim("a", uuid).network_info] == [blue.id]
        assert build.instance.image == IMAGE
        assert build.instance.flavor == FLAVOR
        assert build.instance.user_data == "dXNlcg=="
        assert (build.instance.uuid, build.attempt, build.instance.attempt, build.node) == (uuid, 1, 1, "a-node")
        assert build.limits.memory_mb == 4096.0
        assert [alternate.host for alternate in build.alternates] == ["b", "c"]
        assert build.request_spec.retry.hosts == (("a", "a-node"),)

    def test_passwords_and_files_are_kept_until_the_builds_are_over(self, harness: ConductorHarness) -> None:
        secrets = {"injected_files": (GuestFile(path="/x", contents="eA=="),), "admin_password": "s3cret"}
        create_request = request(2, config_drive=True, request_uuid=REQUEST, body_hash="1", **secrets)
        created = harness.conductor.create_servers(CTX, request=create_request)
        assert created.admin_password == "s3cret"
        harness.settle()
        first, second = created.instance_uuids
        purge = harness.conductor.collaborators.purge
        purge.forget_secrets()
        harness.build("a", first)
        purge.forget_secrets()
        assert harness.conductor.create_servers(CTX, request=create_request) == created
        harness.fail("a", second)
        (again,) = harness.hosts["b"].builds
        assert {name: getattr(again, name) for name in secrets} == secrets
        harness.build("b", second, 2)
        purge.forget_secrets()
        assert harness.count(models.RequestSecrets) == 0
        with harness.db.read() as session:
            assert "s3cret" not in str([row.carried for row in session.scalars(select(models.RequestSpecRow))])
        assert harness.conductor.create_servers(CTX, request=create_request).admin_password is None

    def test_no_config_drive_is_promised_while_a_compute_knows_none(self, harness: ConductorHarness) -> None:
        servers = harness.conductor.collaborators.servers
        servers._levels = lambda: {"compute": "1.2"}
        with pytest.raises(errors.PeerTooOld, match=r"Config drives need compute 1\.3, and the oldest .* has 1\.2"):
            harness.conductor.create_servers(CTX, request=request(1, config_drive=True))
        harness.create(1)
        servers._levels = lambda: {"compute": "1.3"}
        harness.create(1, config_drive=True)

    def test_the_message_names_the_zone_of_the_host(self, harness: ConductorHarness) -> None:
        aggregate = harness.conductor.create_aggregate(CTX, name="n", metadata={"availability_zone": "north"})
        harness.conductor.add_host_to_aggregate(CTX, aggregate_id=aggregate.id, host="a")
        harness.create(1, config_drive=True)
        harness.create(1)
        assert [build.availability_zone for build in harness.hosts["a"].builds] == ["north", ""]

    def test_the_same_request_again_makes_nothing_twice(self, harness: ConductorHarness) -> None:
        server_request = request(2, request_uuid=REQUEST, body_hash="1")
        first = harness.conductor.create_servers(CTX, request=server_request)
        assert harness.conductor.create_servers(CTX, request=server_request) == first
        assert harness.count(models.Instance) == 2
        assert len(harness.waiting) == 1

    def test_a_host_gets_an_instance_as_its_row_says(self, harness: ConductorHarness) -> None:
        (uuid,) = harness.create(metadata={"a": "b"}, user_data="Zm9v")
        with harness.db.read() as session:
            stored = instances.by_uuids(session, [uuid], networks=False)[uuid]
        assert harness.hosts["a"].builds[-1].instance == stored

    def test_the_same_request_uuid_with_another_body_is_a_conflict(self, harness: ConductorHarness) -> None:
        harness.conductor.create_servers(CTX, request=request(request_uuid=REQUEST, body_hash="1"))
        with pytest.raises(errors.Conflict, match=REQUEST):
            harness.conductor.create_servers(CTX, request=request(request_uuid=REQUEST, body_hash="2"))
        other = msgspec.structs.replace(CTX, project_id="other")
        harness.conductor.create_servers(other, request=request(request_uuid=REQUEST, body_hash="2"))
        assert harness.count(models.Instance) == 2

    def test_a_build_that_goes_well(self, harness: ConductorHarness) -> None:
        (uuid,) = harness.create()
        assert harness.state(uuid) == "building/scheduling on None"
        claimed = harness.claim("a", uuid)
        assert (claimed.host, claimed.node, claimed.image) == ("a", "a-node", IMAGE)
        assert harness.state(uuid) == "building/block_device_mapping on a"
        assert (harness.row("a").vcpus_used, harness.row("a").running_vms) == (1, 1)
        harness.conductor.begin_attempt(CTX, instance_uuid=uuid, attempt=1, host="a", step="spawning")
        assert harness.state(uuid) == "building/spawning on a"
        harness.succeed("a", uuid)
        assert harness.state(uuid) == "active/None on a"
        assert harness.instance(uuid).launched_at is not None
        assert harness.task(uuid) is None
        assert harness.actions(uuid) == [("create", "Success")]
        assert harness.allocated() == {uuid: "a"}

    def test_reports_said_twice_are_heard_once(self, harness: ConductorHarness) -> None:
        (uuid,) = harness.create()
        harness.claim("a", uuid)
        harness.claim("a", uuid)
        harness.succeed("a", uuid)
        launched_at = harness.instance(uuid).launched_at
        harness.now += 5
        harness.succeed("a", uuid)
        assert harness.instance(uuid).launched_at == launched_at

    def test_a_step_that_is_none_is_refused(self, harness: ConductorHarness) -> None:
        (uuid,) = harness.create()
        harness.claim("a", uuid)
        for step in ("dancing", "deleting"):
            with pytest.raises(errors.BadRequest, match=step):
                harness.conductor.begin_attempt(CTX, instance_uuid=uuid, attempt=1, host="a", step=step)


class ScheduleCases:
    def test_no_host_is_an_error_with_the_reason(self, harness: ConductorHarness) -> None:
        harness.scheduler.order = []
        (uuid,) = harness.create()
        assert harness.state(uuid) == "error/None on None"
        assert harness.fault(uuid) == "NoValidHost: No valid host was found. 3 hosts: RamFilter removed 3."
        assert harness.actions(uuid) == [("create", "Error")]
        assert harness.task(uuid) is None
        assert harness.count(models.DiagnosisRow) == 1

    def test_the_instances_of_one_request_share_one_diagnosis(self, harness: ConductorHarness) -> None:
        harness.scheduler.order = []
        uuids = harness.create(3)
        assert (harness.count(models.DiagnosisRow), harness.count(models.InstanceDiagnosis)) == (1, 3)
        assert {harness.diagnosis(uuid).instance_uuids for uuid in uuids} == {uuids}

    def test_a_scheduler_that_does_not_answer_is_asked_again_with_a_higher_number(
        self, harness: ConductorHarness
    ) -> None:
        harness.scheduler.mood = errors.ServiceUnavailable("No answer in time")
        (uuid,) = harness.create()
        assert harness.state(uuid) == "building/scheduling on None"
        harness.scheduler.mood = None
        harness.tick(harness.conductor, 5)
        assert [number for _, number, _ in harness.scheduler.asked] == [1, 2]
        assert len(harness.hosts["a"].builds) == 1

    def test_an_answer_that_is_lost_leaves_no_second_allocation(self, harness: ConductorHarness) -> None:
        harness.scheduler.lose_answer = True
        (uuid,) = harness.create()
        assert harness.allocated() == {uuid: "a"}
        harness.scheduler.lose_answer = False
        harness.scheduler.order = ["b"]
        harness.tick(harness.conductor, 5)
        assert harness.allocated() == {uuid: "b"}
        assert harness.used("a") == {"VCPU": 0, "MEMORY_MB": 0, "DISK_GB": 0}

    def test_it_is_not_asked_for_ever(self, harness: ConductorHarness) -> None:
        harness.scheduler.mood = errors.ServiceUnavailable("No answer in time")
        (uuid,) = harness.create()
        for _ in range(40):
            harness.tick(harness.conductor, 60)
        assert harness.state(uuid) == "error/None on None"
        assert harness.fault(uuid) == "NoValidHost: No scheduler has answered in time."

    def test_any_other_failure_ends_this_request_and_no_other(self, harness: ConductorHarness) -> None:
        harness.scheduler.mood = RuntimeError("a filter broke")
        (uuid,) = harness.create()
        assert harness.fault(uuid) == "RuntimeError: Scheduling failed: a filter broke"
        assert harness.diagnosis(uuid).error == text_of("SchedulingFailed")  # which people read, too
        harness.scheduler.mood = None
        (other,) = harness.create()
        assert harness.allocated() == {other: "a"}

    def test_deleted_while_it_is_scheduled_its_allocation_is_given_back(self, harness: ConductorHarness) -> None:
        (uuid, other) = harness.conductor.create_servers(CTX, request=request(2)).instance_uuids
        harness.scheduler.before_answer = lambda: harness.delete(uuid)
        harness.settle()
        assert harness.state(uuid) == "deleted/None on None"
        assert harness.allocated() == {other: "a"}
        assert [build.instance.uuid for build in harness.hosts["a"].builds] == [other]

    def test_deleted_before_the_scheduler_claims_the_rest_is_asked_for_again(self, harness: ConductorHarness) -> None:
        (uuid, other) = harness.conductor.create_servers(CTX, request=request(2)).instance_uuids
        harness.delete(uuid)
        harness.settle()
        harness.tick(harness.conductor, 5)
        assert harness.scheduler.asked[-1] == ((other,), 2, 2)
        assert harness.scheduler.specs[-1].num_instances == 1
        assert harness.allocated() == {other: "a"}

    @pytest.mark.parametrize("forced", [{"force_host": "a"}, {"force_node": "a-node"}])
    def test_a_forced_host_has_no_alternates(self, harness: ConductorHarness, forced: dict[str, str]) -> None:
        harness.create(1, **forced)
        assert harness.scheduler.asked[-1][2] == 0

    @pytest.mark.parametrize(
        ("extra_specs", "named"),
        [
            ({"trait:CUSTOM_A": "perhaps"}, "trait:CUSTOM_A='perhaps'"),
            ({"resources:VCPU": "-1"}, "resources:VCPU='-1'"),
        ],
    )
    def test_what_cannot_be_asked_of_placement_is_refused_before_anything_is_written(
        self, harness: ConductorHarness, extra_specs: dict[str, str], named: str
    ) -> None:
        flavor = msgspec.structs.replace(FLAVOR, extra_specs=extra_specs)
        with pytest.raises(errors.BadRequest, match=named):
            harness.conductor.create_servers(CTX, request=request(1, flavor=flavor))
        assert harness.count(models.Instance) == 0


class FailureCases:
    def test_the_next_alternate_is_tried_and_the_allocation_goes_along(self, harness: ConductorHarness) -> None:
        (uuid,) = harness.create()
        harness.claim("a", uuid)
        harness.fail("a", uuid)
        assert harness.state(uuid) == "building/scheduling on None"
        assert harness.allocated() == {uuid: "b"}
        (build,) = harness.hosts["b"].builds
        assert (build.attempt, build.node, [alternate.host for alternate in build.alternates]) == (2, "b-node", ["c"])
        assert build.request_spec.retry.hosts == (("a", "a-node"), ("b", "b-node"))
        harness.build("b", uuid, attempt=2)
        assert harness.state(uuid) == "active/None on b"

    def test_a_full_alternate_is_skipped(self, harness: ConductorHarness) -> None:
        harness.audit("b", vcpus=0, memory_mb=0, local_gb=0)
        (uuid,) = harness.create()
        harness.fail("a", uuid)
        assert harness.allocated() == {uuid: "c"}
        assert [build.attempt for build in harness.hosts["c"].builds] == [2]

    def test_an_alternate_that_is_down_is_skipped(self, harness: ConductorHarness) -> None:
        (uuid,) = harness.create()
        harness.conductor.heartbeat(CTX, host="b", binary="minova-compute", down_reason="libvirtd is gone")
        harness.fail("a", uuid)
        assert harness.allocated() == {uuid: "c"}

    def test_too_many_attempts_and_no_host_left_are_told_apart(self, harness: ConductorHarness) -> None:
        (uuid,) = harness.create()
        for attempt, host in enumerate("abc", 1):
            harness.fail(host, uuid, attempt, reason=f"reason {attempt}")
        assert harness.state(uuid) == "error/None on None"
        assert harness.fault(uuid).startswith(
            "MaxRetriesExceeded: Exceeded maximum number of retries. Build failed in 3 attempts."
        )
        assert "a: reason 1; b: reason 2; c: reason 3" in harness.fault(uuid)
        assert harness.outcome(uuid).startswith("Error: Exceeded maximum number of retries.")
        assert harness.allocated() == {}
        harness.scheduler.order = ["a"]
        (other,) = harness.create()
        harness.fail("a", other)
        assert harness.fault(other).startswith(
            "NoValidHost: No valid host was found. Build failed in 1 attempt, and no"
        )
        assert harness.outcome(other).startswith("Error: No valid host was found.")

    @pytest.mark.parametrize(
        ("forced", "max_attempts"), [({"force_host": "a"}, 3), ({"force_node": "a-node"}, 3), ({}, 1)]
    )
    def test_without_a_retry_the_reason_of_the_only_attempt_is_the_fault(
        self, harness: ConductorHarness, forced: dict[str, str], max_attempts: int
    ) -> None:
        harness.options["scheduler__max_attempts"] = max_attempts
        harness.conductor = harness.start("single")
        (uuid,) = harness.create(1, **forced)
        assert harness.scheduler.asked[-1][2] == 0
        harness.fail("a", uuid, reason="no such CPU")
        assert harness.fault(uuid) == "RescheduledException: a: no such CPU"
        assert harness.outcome(uuid) == f"Error: {UNKNOWN}"
        assert harness.state(uuid) == "error/None on None"
        assert harness.allocated() == {}

    def test_a_reason_that_no_table_takes_ends_the_build_all_the_same(self, harness: ConductorHarness) -> None:
        (uuid,) = harness.create()
        for attempt, host in enumerate("abc", 1):
            harness.fail(host, uuid, attempt, reason="qemu said \0" + "\N{SNOWMAN}" * 100_000)
        assert harness.state(uuid) == "error/None on None"
        assert harness.fault(uuid).startswith(
            "MaxRetriesExceeded: Exceeded maximum number of retries. Build failed in 3 attempts."
        )
        assert "a: qemu said \N{REPLACEMENT CHARACTER}\N{SNOWMAN}" in harness.fault(uuid)

    def test_what_no_host_can_build_is_not_tried_elsewhere(self, harness: ConductorHarness) -> None:
        (uuid,) = harness.create()
        harness.fail("a", uuid, reason="the image is corrupt", retriable=False)
        assert harness.fault(uuid) == "BuildAbortException: a: the image is corrupt"
        assert harness.hosts["b"].builds == []
        assert harness.allocated() == {}

    def test_late_reports_of_a_given_up_attempt_are_stale(self, harness: ConductorHarness) -> None:
        (uuid,) = harness.create()
        harness.claim("a", uuid)
        harness.fail("a", uuid)
        with pytest.raises(errors.StaleAttempt):
            harness.claim("a", uuid)
        with pytest.raises(errors.StaleAttempt):
            harness.conductor.begin_attempt(CTX, instance_uuid=uuid, attempt=1, host="a", step="spawning")
        with pytest.raises(errors.StaleAttempt):
            harness.succeed("a", uuid)
        harness.fail("a", uuid)
        # The message of the next attempt may be sent again with a repeated report, whose first answer may be lost.
        assert {build.attempt for build in harness.hosts["b"].builds} == {2}
        assert harness.hosts["c"].builds == []
        assert harness.allocated() == {uuid: "b"}

    def test_an_attempt_belongs_to_one_host(self, harness: ConductorHarness) -> None:
        (uuid,) = harness.create()
        with pytest.raises(errors.StaleAttempt):
            harness.claim("b", uuid)

    def test_a_build_that_takes_too_long_goes_elsewhere(self, harness: ConductorHarness) -> None:
        (uuid,) = harness.create()
        harness.claim("a", uuid)
        harness.now += 1801
        harness.beat()
        assert harness.allocated() == {uuid: "b"}

    def test_a_success_of_another_attempt_is_stale_even_from_the_right_host(self, harness: ConductorHarness) -> None:
        (uuid,) = harness.create()
        harness.claim("a", uuid)
        for other in (0, 2):
            with pytest.raises(errors.StaleAttempt):
                harness.succeed("a", uuid, attempt=other)
        assert harness.state(uuid) == "building/block_device_mapping on a"
        harness.succeed("a", uuid)
        assert harness.state(uuid) == "active/None on a"

    def test_a_host_that_falls_silent_loses_its_builds(self, harness: ConductorHarness) -> None:
        (uuid,) = harness.create()
        for _ in range(8):
            harness.now += 10
            harness.beat("b", "c")
        assert harness.allocated() == {uuid: "b"}

    def test_a_host_that_says_it_cannot_work_keeps_its_builds_and_gets_no_new_ones(
        self, harness: ConductorHarness
    ) -> None:
        """Its compute works, and reports itself how they end."""
        (uuid,) = harness.create()
        harness.cannot_work("a")
        assert harness.allocated() == {uuid: "a"}
        harness.fail("a", uuid)
        assert harness.allocated() == {uuid: "b"}
