"""Claims and successes that hosts report together: one transaction, and an answer for each."""

from typing import Any
from uuid import uuid4

import msgspec
import pytest
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError

from minova import errors
from minova.conductor.actions.engine.in_progress import ReportedAction
from minova.conductor.actions.engine.kind import ActionRequest
from minova.conductor.actions.engine.reports import Success
from minova.conductor.servers.build import Reservation, ScheduledReservation
from minova.conductor.servers.create import ServerCreation, spec_of
from minova.db import models, quotas
from minova.objects.actions.action import ServerAction
from minova.objects.actions.power import REBOOT_HARD, START, STOP
from minova.objects.servers.build import BuildReport, InstanceClaim, ReportAnswer
from minova.objects.servers.chosen_hardware import ChosenHardware
from minova.objects.servers.states import PowerState
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, new_request, request


def claims(*uuids: str) -> tuple[InstanceClaim, ...]:
    return tuple(InstanceClaim(ctx=CTX, instance_uuid=uuid, attempt=1) for uuid in uuids)


def successes(*uuids: str) -> tuple[BuildReport, ...]:
    return tuple(BuildReport(ctx=CTX, instance_uuid=uuid, attempt=1, power_state=1) for uuid in uuids)


def creations_of(harness: ConductorHarness) -> Any:
    """Writes several together, in a project whose usage is counted already: its first use takes a transaction more."""
    harness.db.run(lambda session: quotas.count_first(session, CTX.project_id))
    return harness.conductor.collaborators.servers._creations.run_all


def creation(**values: Any) -> ServerCreation:
    server_request = request(**values)
    epochs = {str(uuid4()): 1 for _ in range(server_request.max_count)}
    spec = spec_of(CTX, server_request)
    reservation = Reservation(id=f"r-{uuid4().hex[:16]}", epochs=epochs, claim_number=1, spec=spec)
    return ServerCreation(CTX, server_request, reservation, spec)


def commits_of(harness: ConductorHarness, work: Any) -> int:
    seen: list[object] = []

    def note(connection: object) -> None:
        seen.append(connection)

    event.listen(harness.db.engine, "commit", note)
    try:
        work()
    finally:
        event.remove(harness.db.engine, "commit", note)
    return len(seen)


def action_of(uuid: str, action: ServerAction = STOP, **values: Any) -> ActionRequest:
    """A request of its own: the same one, delivered again, begins nothing."""
    return ActionRequest(ctx=new_request(), action=action, instance_uuid=uuid, **values)


def done(uuid: str, action_id: int, host: str = "a") -> Success:
    return Success(ctx=CTX, reported=ReportedAction(uuid, action_id, host), power_state=PowerState.SHUTDOWN)


def statements_of(harness: ConductorHarness, work: Any) -> int:
    seen: list[object] = []

    def note(*arguments: object) -> None:
        seen.append(arguments)

    event.listen(harness.db.engine, "before_cursor_execute", note)
    try:
        work()
    finally:
        event.remove(harness.db.engine, "before_cursor_execute", note)
    return len(seen)


class GroupCommitCases:
    def test_claims_of_a_host_are_written_together(self, harness: ConductorHarness) -> None:
        harness.scheduler.order = ["a"]
        uuids = harness.create(3)
        node = harness.node("a", vcpus_used=3, memory_mb_used=1536, running_vms=3)
        answers: list[ReportAnswer] = []
        commits = commits_of(
            harness, lambda: answers.extend(harness.conductor.claim_instances(CTX, claims=claims(*uuids), node=node))
        )
        assert commits == 1, commits
        assert [answer.instance and answer.instance.uuid for answer in answers] == list(uuids)
        assert {harness.state(uuid) for uuid in uuids} == {"building/block_device_mapping on a"}
        assert harness.row("a").vcpus_used == 3

    def test_a_stale_claim_does_not_fail_its_neighbours(self, harness: ConductorHarness) -> None:
        harness.scheduler.order = ["a"]
        uuids = harness.create(3)
        harness.delete(uuids[1])
        node = harness.node("a", vcpus_used=3, memory_mb_used=1536, running_vms=3)
        first, second, third = harness.conductor.claim_instances(CTX, claims=claims(*uuids), node=node)
        assert first.instance is not None
        assert third.instance is not None
        assert second.instance is None
        assert second.stale is not None
        assert uuids[1] in second.stale

    def test_successes_of_a_host_are_written_together(self, harness: ConductorHarness) -> None:
        harness.scheduler.order = ["a"]
        uuids = harness.create(3)
        for uuid in uuids:
            harness.claim("a", uuid)
        commits = commits_of(harness, lambda: harness.conductor.report_builds(CTX, reports=successes(*uuids), host="a"))
        assert commits == 1, commits
        assert {harness.state(uuid) for uuid in uuids} == {"active/None on a"}
        assert [harness.actions(uuid) for uuid in uuids] == [[("create", "Success")]] * 3
        assert harness.count(models.Task) == 0

    def test_a_success_that_came_before_is_no_error_among_others(self, harness: ConductorHarness) -> None:
        harness.scheduler.order = ["a"]
        uuids = harness.create(3)
        for uuid in uuids:
            harness.claim("a", uuid)
        harness.succeed("a", uuids[0])
        harness.delete(uuids[2])
        known_build, new, deleted = harness.conductor.report_builds(CTX, reports=successes(*uuids), host="a")
        assert (known_build.stale, new.stale) == (None, None)
        assert deleted.stale is not None
        assert [harness.state(uuid) for uuid in uuids[:2]] == ["active/None on a"] * 2

    def test_steps_and_successes_are_written_together(self, harness: ConductorHarness) -> None:
        harness.scheduler.order = ["a"]
        first, second = harness.create(2)
        for uuid in (first, second):
            harness.claim("a", uuid)
        begun = BuildReport(ctx=CTX, instance_uuid=first, attempt=1, step="spawning")
        reports = (begun, *successes(second))
        assert commits_of(harness, lambda: harness.conductor.report_builds(CTX, reports=reports, host="a")) == 1
        assert [harness.state(uuid) for uuid in (first, second)] == ["building/spawning on a", "active/None on a"]

    def test_a_claim_may_begin_with_the_last_step(self, harness: ConductorHarness) -> None:
        (uuid,) = harness.create()
        node = harness.node("a", vcpus_used=1)
        harness.conductor.claim_instance(CTX, instance_uuid=uuid, attempt=1, node=node, step="spawning")
        assert harness.state(uuid) == "building/spawning on a"
        with pytest.raises(errors.BadRequest, match="dancing"):
            harness.conductor.claim_instance(CTX, instance_uuid=uuid, attempt=1, node=node, step="dancing")

    def test_a_success_brings_the_usage_of_its_node(self, harness: ConductorHarness) -> None:
        harness.scheduler.order = ["a"]
        first, second = harness.create(2)
        for uuid in (first, second):
            harness.claim("a", uuid)
        report: dict[str, Any] = {"attempt": 1, "host": "a", "power_state": 1}
        node = harness.node("a", current_workload=1)
        alone = lambda: harness.conductor.build_succeeded(CTX, instance_uuid=first, **report, node=node)  # noqa: E731
        assert commits_of(harness, alone) == 1
        assert harness.row("a").current_workload == 1
        node = harness.node("a", current_workload=0)
        harness.conductor.report_builds(CTX, reports=successes(second), host="a", nodes=(node,))
        assert harness.row("a").current_workload == 0

    def test_a_success_records_the_hardware_of_a_server_that_has_none(self, harness: ConductorHarness) -> None:
        harness.scheduler.order = ["a"]
        first, second = harness.create(2)
        for uuid in (first, second):
            harness.claim("a", uuid)
        chosen = ChosenHardware(machine_type="pc-q35-7.2", uefi=True)
        report: dict[str, Any] = {"attempt": 1, "host": "a", "power_state": 1}
        harness.conductor.build_succeeded(CTX, instance_uuid=first, **report, hardware=chosen)
        reports = tuple(msgspec.structs.replace(success, hardware=chosen) for success in successes(second))
        assert commits_of(harness, lambda: harness.conductor.report_builds(CTX, reports=reports, host="a")) == 1
        for uuid in (first, second):
            assert chosen.recorded.items() <= harness.instance(uuid).system_metadata.items()
        # Repeated with other words, it changes nothing.
        other = ChosenHardware(machine_type="pc-i440fx-7.2")
        harness.conductor.build_succeeded(CTX, instance_uuid=first, **report, hardware=other)
        assert chosen.recorded.items() <= harness.instance(first).system_metadata.items()

    def test_a_stale_success_writes_no_node(self, harness: ConductorHarness) -> None:
        (uuid,) = harness.create()
        harness.claim("a", uuid)
        harness.delete(uuid)
        (answer,) = harness.conductor.report_builds(
            CTX, reports=successes(uuid), host="a", nodes=(harness.node("a", current_workload=7),)
        )
        assert answer.stale is not None
        assert harness.row("a").current_workload != 7

    def test_requests_that_come_together_are_written_together(self, harness: ConductorHarness) -> None:
        results: list[Any] = []
        creations = [creation(max_count=2), creation(scheduler_hints={"group": ["unknown"]}), creation()]
        run = creations_of(harness)
        assert commits_of(harness, lambda: results.extend(run([creations[0], creations[2]]))) == 1
        assert [result.answer.instance_uuids for result in results] == [
            tuple(each_creation.reservation.epochs) for each_creation in (creations[0], creations[2])
        ]
        assert harness.count(models.Instance) == harness.count(models.Task) == 3
        first, refused = run([creation(), creations[1]])
        assert (first.new, type(refused)) == (True, errors.BadRequest)
        assert harness.count(models.Instance) == 4

    def test_a_request_among_others_that_came_before_makes_nothing(self, harness: ConductorHarness) -> None:
        again = creation(request_uuid="11111111-1111-4111-8111-111111111111", body_hash="1")
        run = creations_of(harness)
        (first,) = run([again])
        refused, _ = run([again, creation()])
        assert isinstance(refused, IntegrityError)
        repeated, new = run([again._replace(look=True), creation()])
        assert (repeated.new, repeated.answer, new.new) == (False, first.answer, True)
        assert harness.count(models.Instance) == 3

    def test_builds_scheduled_together_are_committed_together(self, harness: ConductorHarness) -> None:
        harness.scheduler.order = ["a"]
        creations = [creation(), creation(max_count=2)]
        creations_of(harness)(creations)
        scheduled = []
        for given_creation in creations:
            uuids = tuple(given_creation.reservation.epochs)
            answer = harness.scheduler.select_destinations(
                CTX,
                spec=given_creation.spec,
                instance_uuids=uuids,
                claim_number=given_creation.reservation.claim_number,
                alternates=0,
            )
            scheduled.append(ScheduledReservation(CTX, given_creation.reservation, answer))
        builds: list[Any] = []
        commit: Any = harness.conductor.collaborators.servers.builds._commits.run_all
        assert commits_of(harness, lambda: builds.extend(commit(scheduled))) == 1
        assert [{b.message.instance.uuid for b in some} for some in builds] == [
            set(each_creation.reservation.epochs) for each_creation in creations
        ]
        # Repeated, as after a connection that broke at the commit.
        assert [[b.host for b in some] for some in commit(scheduled)] == [["a"], ["a", "a"]]

    def test_actions_that_come_together_are_begun_and_ended_together(self, harness: ConductorHarness) -> None:
        uuids = [harness.active() for _ in range(3)]
        actions: Any = harness.conductor.collaborators.actions
        begun: list[Any] = []
        starts = [action_of(uuids[0]), action_of(uuids[1], REBOOT_HARD), action_of(uuids[2])]
        assert commits_of(harness, lambda: begun.extend(actions._starts.run_all(starts))) == 1
        assert [begun_action.instance.uuid for begun_action in begun] == uuids
        states = ["active/powering-off on a", "active/rebooting_hard on a", "active/powering-off on a"]
        assert [harness.state(uuid) for uuid in uuids] == states
        ends: Any = harness.conductor.collaborators.action_reports._successes.run_all
        reports = [done(begun_action.instance.uuid, begun_action.action_id) for begun_action in begun]
        reports[2] = done(uuids[2], begun[2].action_id, host="b")
        assert commits_of(harness, lambda: ends(reports)) == 1
        states = ["stopped/None on a", "active/None on a", "active/powering-off on a"]
        assert [harness.state(uuid) for uuid in uuids] == states
        assert [harness.actions(uuid)[1:] for uuid in uuids] == [
            [("stop", "Success")],
            [("reboot", "Success")],
            [("stop", None)],
        ]
        assert [harness.events(begun_action.action_id)[0][1:] for begun_action in begun] == [("a", "Success")] * 2 + [
            ("a", None)
        ]
        assert harness.count(models.Task) == 1

    def test_an_action_that_is_refused_fails_none_that_came_with_it(self, harness: ConductorHarness) -> None:
        first, second, third = (harness.active() for _ in range(3))
        starts = [
            action_of(first),
            action_of(second, START),
            action_of("11111111-1111-4111-8111-111111111111"),
            action_of(third),
            action_of(third),
            action_of(second, absent_hosts={"a"}),
        ]
        run: Any = harness.conductor.collaborators.actions._starts.run_all
        answers = run(starts)
        assert [type(answer).__name__ for answer in answers] == [
            "ActionMessage",
            "Conflict",
            "NotFound",
            "ActionMessage",
            "Conflict",
            "Conflict",
        ]
        assert [harness.state(uuid) for uuid in (first, second, third)] == [
            "active/powering-off on a",
            "active/None on a",
            "active/powering-off on a",
        ]

    def test_an_action_costs_few_statements(self, harness: ConductorHarness) -> None:
        """Each is a round trip to the database. SQLite's BEGIN counts as one, and interfaces are two: minova's own and Neutron's. One
        looks whether the request is delivered for the second time.
        """
        uuid = harness.active()
        harness.conductor.collaborators.actions._liveness.down_hosts()
        report_fields: dict[str, Any] = {"instance_uuid": uuid, "host": "a"}
        statements = statements_of(
            harness,
            lambda: harness.conductor.start_action(new_request(), instance_uuid=uuid, action="stop", arguments={}),
        )
        assert statements <= 11
        report_fields["action_id"] = harness.hosts["a"].actions[-1][2]
        assert commits_of(harness, lambda: harness.conductor.begin_action(CTX, **report_fields)) == 0
        assert statements_of(harness, lambda: harness.conductor.begin_action(CTX, **report_fields)) <= 2
        ended = lambda: harness.conductor.action_succeeded(CTX, **report_fields, power_state=4)  # noqa: E731
        assert statements_of(harness, ended) <= 7
        assert harness.state(uuid) == "stopped/None on a"
