"""A server group, and the hints of instances, mean hosts: a host's nodes have its instances together."""

import pytest

from minova.db.engine import Database
from tests.functional.scheduler.cloud import add_instance, named, put_host, spec_of
from tests.functional.scheduler.schedulers import ask, manager_of
from tests.functional.scheduler.test_groups import group_of


@pytest.fixture(autouse=True)
def two_nodes_on_one_host(db: Database) -> None:
    put_host(db, "roomy", name="n1")
    put_host(db, "roomy", name="n2", service=False)
    put_host(db, "small", memory_mb=8192)


def test_anti_affinity_leaves_a_host_whose_other_node_has_a_member(db: Database) -> None:
    group, manager = group_of(db, "anti-affinity", 3), manager_of(db)
    spec = spec_of(instance_group=group)
    first, second, third = (ask(manager, prefix=f"m{number}", spec=spec) for number in range(3))
    assert [answer.selections[0][0].host for answer in (first, second)] == ["roomy", "small"]
    assert not second.diagnosis.conflicts
    assert "ServerGroupAntiAffinityFilter removed 3" in third.diagnosis.summary()


def test_members_of_one_request_are_apart_by_hosts(db: Database) -> None:
    group = group_of(db, "anti-affinity", 1)
    answer = ask(manager_of(db), 2, prefix="m0", spec=spec_of(instance_group=group))
    assert sorted(selections[0].host for selections in answer.selections) == ["roomy", "small"]
    assert not answer.diagnosis.conflicts


@pytest.mark.parametrize(
    ("hint", "hosts"), [("same_host", {("roomy", "n1"), ("roomy", "n2")}), ("different_host", {("small", "small")})]
)
def test_hints_of_instances_mean_hosts(db: Database, hint: str, hosts: set[tuple[str, str]]) -> None:
    manager = manager_of(db, filter_scheduler__enabled_filters=["SameHostFilter", "DifferentHostFilter"])
    with db.write() as session:
        add_instance(session, named("there-0"))
    ask(manager, prefix="there", spec=spec_of(force_hosts=("roomy",)))
    spec = spec_of(scheduler_hints={hint: (named("there-0"),)})
    alternates = ask(manager, prefix="new", spec=spec).selections[0]
    assert {(selection.host, selection.node) for selection in alternates} == hosts
