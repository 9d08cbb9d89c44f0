"""The builds of a host go to it in one message."""

from tests.functional.conductor.desk import Desk


def test_builds_of_a_request_on_one_host_are_one_message(desk: Desk) -> None:
    desk.scheduler.order = ["a"]
    uuids = desk.create(3)
    assert {one.instance.uuid for one in desk.hosts["a"].builds} == set(uuids)
    assert desk.hosts["a"].messages == 1


def test_an_older_host_gets_them_one_by_one(desk: Desk) -> None:
    desk.scheduler.order = ["a"]
    desk.hosts["a"].old = True
    uuids = desk.create(3)
    assert {one.instance.uuid for one in desk.hosts["a"].builds} == set(uuids)
    assert desk.hosts["a"].messages == 3
