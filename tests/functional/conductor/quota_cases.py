"""Quotas on every engine: counted in the transaction that writes, also when many requests come at once."""

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import msgspec
import pytest
from sqlalchemy import delete, select, update

from minova import errors
from minova.context import RequestContext
from minova.db import models, quotas
from minova.objects.catalogue.quota import COUNTED
from tests.fakes.running_conductor import RunningConductor
from tests.functional.conductor.conductor_harness import CTX, FLAVOR, IMAGE, ConductorHarness, new_request, request

PROJECT = CTX.project_id
SMALL = msgspec.structs.replace(FLAVOR, memory_mb=64)
BIG = msgspec.structs.replace(FLAVOR, vcpus=4, memory_mb=1024)


def used(harness: ConductorHarness, project_id: str = PROJECT) -> dict[str, int]:
    """What is counted and not 0."""
    with harness.db.read() as session:
        return {name: amount for name, amount in quotas.usages_of(session, project_id).items() if amount}


def limit(harness: ConductorHarness, project_id: str = PROJECT, **limits: int) -> None:
    harness.conductor.update_quota_set(CTX, project_id=project_id, limits=limits, force=False)


def at_once(work: Callable[[int], Any], count: int = 8) -> list[Any]:
    """The answer, or the MinovaError, of each of `count` threads."""
    answers: list[Any] = [None] * count
    ready = threading.Barrier(count)

    def run(number: int) -> None:
        ready.wait()
        try:
            answers[number] = work(number)
        except errors.MinovaError as error:
            answers[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def refusals(answers: list[Any]) -> list[str]:
    # The API of any release knows this very type.
    assert {type(answer) for answer in answers if isinstance(answer, Exception)} <= {errors.Forbidden}, answers
    return [str(answer) for answer in answers if isinstance(answer, Exception)]


class QuotaCases:
    def test_servers_count_until_their_record_is_destroyed(self, harness: ConductorHarness) -> None:
        harness.scheduler.order = []  # without a host they are deleted at once
        instance_uuids = harness.conductor.create_servers(CTX, request=request(2, flavor=SMALL)).instance_uuids
        assert used(harness) == {"instances": 2, "cores": 2, "ram": 128}
        harness.settle()
        for uuid in instance_uuids:
            harness.conductor.delete_server(new_request(), instance_uuid=uuid)
        with pytest.raises(errors.NotFound):
            harness.conductor.delete_server(new_request(), instance_uuid=instance_uuids[0])
        harness.settle()
        assert used(harness) == {}

    @pytest.mark.parametrize(("least", "made"), [(1, 1), (2, 0)])
    def test_as_many_servers_are_made_as_fit_down_to_the_least_that_is_asked_for(
        self, harness: ConductorHarness, least: int, made: int
    ) -> None:
        limit(harness, instances=1)
        with nullcontext() if made else pytest.raises(errors.Forbidden, match="instances"):
            harness.create(3, flavor=SMALL, min_count=least)
        assert used(harness).get("instances", 0) == made

    def test_refusal_says_which_quota_is_exceeded(self, harness: ConductorHarness) -> None:
        limit(harness, instances=2, cores=9, ram=10_000)
        harness.conductor.create_servers(CTX, request=request(2, flavor=BIG))
        with pytest.raises(errors.Forbidden) as refused:
            harness.conductor.create_servers(CTX, request=request(1, flavor=BIG))
        assert type(refused.value) is errors.Forbidden  # which the API of any release knows
        assert str(refused.value) == (
            "Quota exceeded for cores, instances: Requested 4, 1, but already used 8, 2 of 9, 2 cores, instances"
        )
        assert used(harness) == {"instances": 2, "cores": 8, "ram": 2048}
        assert harness.count(models.Instance) == 2

    @pytest.mark.parametrize(("least", "most", "made"), [(1, 9, 3), (3, 9, 3), (1, 2, 2), (4, 9, None)])
    def test_as_many_as_fit_are_made(self, harness: ConductorHarness, least: int, most: int, made: int | None) -> None:
        limit(harness, instances=10, cores=14, ram=-1)
        create_request = request(1, flavor=BIG, min_count=least, max_count=most)
        if made is not None:
            assert len(harness.conductor.create_servers(CTX, request=create_request).instance_uuids) == made
            assert used(harness)["cores"] == 4 * made
            return
        with pytest.raises(
            errors.Forbidden, match=r"Quota exceeded for cores: Requested 36, but already used 0 of 14 cores"
        ):
            harness.conductor.create_servers(CTX, request=create_request)
        assert used(harness) == {}

    def test_a_repeated_request_is_not_refused_for_what_its_own_servers_have_taken(
        self, harness: ConductorHarness
    ) -> None:
        limit(harness, instances=1)
        create_request = request(request_uuid="8d3e7b02-5d3c-4f3c-a0e8-1d5f8f6b2f01", body_hash="x")
        answers = [harness.conductor.create_servers(CTX, request=create_request) for _ in range(2)]
        assert answers[0] == answers[1]
        assert used(harness)["instances"] == 1

    def test_range_of_servers_stands_in_the_refusal(self, harness: ConductorHarness) -> None:
        limit(harness, instances=1)
        with pytest.raises(
            errors.Forbidden, match=r"Quota exceeded for instances: Requested 2-5, but already used 0 of 1"
        ):
            harness.conductor.create_servers(CTX, request=request(1, min_count=2, max_count=5))

    def test_parallel_requests_never_exceed_a_limit(self, harness: ConductorHarness) -> None:
        """Two conductors, and the first use of the project: eight requests for what is enough for five."""
        limit(harness, instances=100, cores=5, ram=-1)
        conductors: list[RunningConductor] = [harness.conductor, harness.start("two")]
        answers = at_once(lambda number: conductors[number % 2].create_servers(CTX, request=request()))
        assert len(refusals(answers)) == 3
        assert used(harness) == {"instances": 5, "cores": 5, "ram": 5 * 512}
        assert harness.count(models.Instance) == 5

    def test_parallel_creations_and_deletions_leave_right_usages(self, harness: ConductorHarness) -> None:
        harness.scheduler.order = []
        old = harness.conductor.create_servers(CTX, request=request(2, flavor=SMALL)).instance_uuids
        harness.settle()
        two = harness.start("two")

        def work(number: int) -> Any:
            if number % 2:
                return two.create_servers(CTX, request=request(flavor=SMALL))
            return harness.conductor.delete_server(new_request(), instance_uuid=old[number // 2])

        assert refusals(at_once(work, 4)) == []
        harness.settle()
        with harness.db.read() as session:
            right = {name: n for name, n in quotas.counted(session, PROJECT, COUNTED).items() if n}
        assert used(harness) == right == {"instances": 2, "cores": 2, "ram": 2 * 64}

    def test_projects_are_counted_apart(self, harness: ConductorHarness) -> None:
        limit(harness, instances=0)
        other = RequestContext(request_id="req-2", user_id="bob", project_id="other")
        harness.conductor.create_servers(other, request=request(2))
        assert used(harness, "other")["instances"] == 2
        with pytest.raises(errors.Forbidden):
            harness.conductor.create_servers(CTX, request=request())

    def test_repeated_request_counts_once(self, harness: ConductorHarness) -> None:
        limit(harness, instances=2)
        create_request = request(2, request_uuid="8d3e7b02-5d3c-4f3c-a0e8-1d5f8f6b2f00", body_hash="x")
        first = harness.conductor.create_servers(CTX, request=create_request)
        assert harness.conductor.create_servers(CTX, request=create_request) == first
        assert used(harness)["instances"] == 2

    def test_failed_builds_count_while_their_record_is_there(self, harness: ConductorHarness) -> None:
        harness.scheduler.order = []
        (uuid,) = harness.conductor.create_servers(CTX, request=request()).instance_uuids
        harness.settle()
        assert used(harness)["instances"] == 1
        harness.conductor.delete_server(new_request(), instance_uuid=uuid)
        harness.settle()
        assert used(harness) == {}

    def test_what_was_there_before_is_counted_at_the_first_use(self, harness: ConductorHarness) -> None:
        """As after an upgrade: the rows of a release that did not count."""
        harness.conductor.create_servers(CTX, request=request(3))
        harness.conductor.create_server_group(CTX, name="g", policy="affinity")
        harness.db.run(lambda session: session.execute(delete(models.QuotaUsage)))
        limit(harness, instances=4)
        with pytest.raises(errors.Forbidden, match=r"Requested 2, but already used 3 of 4 instances"):
            harness.conductor.create_servers(CTX, request=request(2))
        harness.conductor.create_servers(CTX, request=request(1))
        assert used(harness) == {"instances": 4, "cores": 4, "ram": 2048, "server_groups": 1}

    def test_recount_mends_what_others_did_not_count(
        self, harness: ConductorHarness, caplog: pytest.LogCaptureFixture
    ) -> None:
        harness.conductor.create_servers(CTX, request=request(3))
        wrong = update(models.QuotaUsage).where(models.QuotaUsage.resource == "cores").values(used=77)
        harness.db.run(lambda session: session.execute(wrong))
        (recount,) = [task for task in harness.conductor.periodic_tasks() if task.name == "recount_quotas"]
        recount.work()
        assert used(harness)["cores"] == 3
        assert "The usage of project demo was counted again: cores 3, not 77" in caplog.text
        caplog.clear()
        recount.work()
        assert "counted again" not in caplog.text

    def test_recount_beside_requests_loses_none(self, harness: ConductorHarness) -> None:
        harness.conductor.create_servers(CTX, request=request())
        two = harness.start("two")
        recount = two.collaborators.quotas.recount
        at_once(lambda number: recount() if number % 2 else harness.conductor.create_servers(CTX, request=request()))
        assert used(harness) == {"instances": 5, "cores": 5, "ram": 5 * 512}

    def test_usages_never_fall_below_zero(self, harness: ConductorHarness) -> None:
        (uuid,) = harness.conductor.create_servers(CTX, request=request()).instance_uuids
        harness.settle()
        harness.db.run(lambda session: session.execute(update(models.QuotaUsage).values(used=0)))
        harness.conductor.delete_server(new_request(), instance_uuid=uuid)
        harness.settle()
        assert used(harness) == {}

    def test_server_groups_are_limited(self, harness: ConductorHarness) -> None:
        limit(harness, server_groups=2)
        answers = at_once(lambda number: harness.conductor.create_server_group(CTX, name="g", policy="affinity"), 4)
        assert refusals(answers) == ["Quota exceeded, too many server groups."] * 2
        first = next(answer for answer in answers if not isinstance(answer, Exception))
        harness.conductor.delete_server_group(CTX, group_uuid=first.uuid)
        harness.conductor.create_server_group(CTX, name="g", policy="affinity")
        assert used(harness) == {"server_groups": 2}

    def test_members_of_a_group_are_limited(self, harness: ConductorHarness) -> None:
        limit(harness, server_group_members=3)
        group = harness.conductor.create_server_group(CTX, name="g", policy="soft-affinity")
        create_request = request(scheduler_hints={"group": group.uuid})
        two = harness.start("two")
        answers = at_once(
            lambda number: (two if number % 2 else harness.conductor).create_servers(CTX, request=create_request), 6
        )
        assert refusals(answers) == ["Quota exceeded, too many servers in group"] * 3
        assert harness.count(models.InstanceGroupMember) == 3
        assert used(harness)["instances"] == 3

    def test_images_are_limited_in_number_and_bytes(self, harness: ConductorHarness) -> None:
        limit(harness, image_count_total=2, image_size_total=3)
        names = ["8d3e7b02-5d3c-4f3c-a0e8-1d5f8f6b2f0" + digit for digit in "0123"]
        images = [
            msgspec.structs.replace(IMAGE, id=image_id, owner=PROJECT, status="queued", size=None) for image_id in names
        ]
        answers = at_once(lambda number: harness.conductor.create_image(CTX, image=images[number]), 4)
        assert (
            refusals(answers)
            == ["Quota exceeded for image_count_total: Requested 1, but already used 2 of 2 image_count_total"] * 2
        )
        first, second = [answer for answer in answers if not isinstance(answer, Exception)]
        for image, size, fits in ((first, 2**20 + 1, True), (second, 2**20 + 1, False), (second, 2**20, True)):
            active = msgspec.structs.replace(image, status="active", size=size)
            if fits:
                harness.conductor.update_image(CTX, image=active, expected_status="queued")
                continue
            with pytest.raises(
                errors.Forbidden, match="Quota exceeded for image_size_total: Requested 2, but already used 2 of 3"
            ):
                harness.conductor.update_image(CTX, image=active, expected_status="queued")
        assert used(harness) == {"image_count_total": 2, "image_size_total": 3}
        harness.conductor.delete_image(CTX, image_id=first.id)
        assert used(harness) == {"image_count_total": 1, "image_size_total": 1}

    def test_limit_below_the_usage_takes_force(self, harness: ConductorHarness) -> None:
        harness.conductor.create_servers(CTX, request=request(3))
        with pytest.raises(
            errors.BadRequest,
            match=r"Quota limit 2 for instances must be greater than or equal to already used and reserved 3\.",
        ):
            limit(harness, instances=2)
        harness.conductor.update_quota_set(CTX, project_id=PROJECT, limits={"instances": 2}, force=True)
        limit(harness, instances=-1)
        harness.conductor.update_quota_set(CTX, project_id=PROJECT, limits={"instances": 2, "ram": 1}, force=True)
        with pytest.raises(
            errors.Forbidden, match=r"Requested 1, 512, but already used 3, 1536 of 2, 1 instances, ram"
        ):
            harness.conductor.create_servers(CTX, request=request())
        harness.conductor.delete_quota_set(CTX, project_id=PROJECT, resources=("instances", "ram"))
        harness.conductor.create_servers(CTX, request=request())

    def test_default_class_replaces_the_options_and_a_project_replaces_both(self, harness: ConductorHarness) -> None:
        harness.conductor.update_quota_class_set(CTX, class_name="default", limits={"instances": 1})
        harness.conductor.update_quota_class_set(CTX, class_name="other", limits={"instances": 0})
        harness.conductor.create_servers(CTX, request=request())
        with pytest.raises(errors.Forbidden):
            harness.conductor.create_servers(CTX, request=request())
        limit(harness, instances=2)
        harness.conductor.create_servers(CTX, request=request())
        with harness.db.read() as session:
            assert session.scalars(select(models.Quota.hard_limit)).all() == [2]
