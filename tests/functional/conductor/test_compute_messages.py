"""The builds of a host go to it in one message."""

from tests.functional.conductor.conductor_harness import ConductorHarness


def test_builds_of_a_request_on_one_host_are_one_message(harness: ConductorHarness) -> None:
    harness.scheduler.order = ["a"]
    uuids = harness.create(3)
    assert {build.instance.uuid for build in harness.hosts["a"].builds} == set(uuids)
    assert harness.hosts["a"].messages == 1


def test_an_older_host_gets_them_one_by_one(harness: ConductorHarness) -> None:
    harness.scheduler.order = ["a"]
    harness.hosts["a"].old = True
    uuids = harness.create(3)
    assert {build.instance.uuid for build in harness.hosts["a"].builds} == set(uuids)
    assert harness.hosts["a"].messages == 3
