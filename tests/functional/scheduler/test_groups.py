"""Server groups under several schedulers at the same time, each asked with what was known of the group before."""

import threading
from collections import Counter

import pytest

from minova.db.catalogue import server_groups
from minova.db.engine import Database
from minova.objects.catalogue.instance_group import InstanceGroup
from minova.objects.requests.diagnosis import ScheduleAnswer
from minova.scheduler.manager import SchedulerManager
from tests.functional.placement.group_cases import add_group
from tests.functional.scheduler.cloud import add_instance, inventory_rows, named, spec_of, unbalanced
from tests.functional.scheduler.schedulers import ask, hosts, manager_of


def group_of(db: Database, policy: str, members: int, **rules: int) -> InstanceGroup:
    """A group whose members are written and have no host; as the conductor reads it for the first of them."""
    names = [f"m{number}-0" for number in range(members)]
    with db.write() as session:
        for name in names:
            add_instance(session, named(name))
    add_group(db, "g", policy, *names, **rules)
    with db.read() as session:
        group = server_groups.of_instance(session, named(names[0]))
    assert group is not None
    return group


def in_parallel(managers: list[SchedulerManager], group: InstanceGroup, members: int) -> list[ScheduleAnswer]:
    """One request for each member, all with the same old knowledge of the group."""
    answers: list[ScheduleAnswer] = []
    spec = spec_of(instance_group=group)

    def work(number: int) -> None:
        answers.append(ask(managers[number % len(managers)], prefix=f"m{number}", spec=spec))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(members)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return answers


def chosen(answers: list[ScheduleAnswer]) -> Counter[str]:
    return Counter(answer.selections[0][0].host for answer in answers if answer.selections)


@pytest.mark.parametrize(
    ("policy", "rules", "placed", "hosts_used", "most"),
    [
        ("anti-affinity", {}, 4, 4, 1),
        ("anti-affinity", {"max_server_per_host": 2}, 8, 4, 2),
        ("affinity", {}, 8, 1, 8),
        ("soft-anti-affinity", {}, 9, None, 9),
    ],
)
def test_parallel_requests_fill_what_the_policy_allows_and_no_more(
    db: Database, policy: str, rules: dict[str, int], placed: int, hosts_used: int | None, most: int
) -> None:
    hosts(db, 4, memory_mb=16384)
    group = group_of(db, policy, 9, **rules)
    answers = in_parallel([manager_of(db) for _ in range(3)], group, 9)
    count_by_host = chosen(answers)
    assert (count_by_host.total(), max(count_by_host.values()) <= most) == (placed, True), count_by_host
    assert hosts_used in (None, len(count_by_host))
    assert not unbalanced(inventory_rows(db))
    reasons = [str([step for step in a.diagnosis.steps if step.lost]) for a in answers if not a.selections]
    assert all("group" in reason for reason in reasons if policy == "anti-affinity"), reasons


@pytest.mark.parametrize("policy", ["anti-affinity", "affinity"])
def test_one_request_for_several_members(db: Database, policy: str) -> None:
    hosts(db, 3)
    names = [f"i-{number}" for number in range(3)]
    with db.write() as session:
        for name in names:
            add_instance(session, named(name))
    add_group(db, "g", policy, *names)
    with db.read() as session:
        group = server_groups.of_instance(session, named(names[0]))
    answer = ask(manager_of(db), 3, spec=spec_of(instance_group=group))
    assert len({selections[0].host for selections in answer.selections}) == (3 if policy == "anti-affinity" else 1)


def test_a_member_that_only_another_scheduler_knows_of_is_seen(db: Database) -> None:
    hosts(db, 2)
    group = group_of(db, "anti-affinity", 3)
    first, second = manager_of(db), manager_of(db)
    places = [
        chosen([ask(manager, prefix=f"m{number}", spec=spec_of(instance_group=group))])
        for number, manager in enumerate((first, second))
    ]
    assert len(places[0] + places[1]) == 2
    answer = ask(first, prefix="m2", spec=spec_of(instance_group=group))
    assert not answer.selections
    assert "ServerGroupAntiAffinityFilter removed 2" in answer.diagnosis.summary()
