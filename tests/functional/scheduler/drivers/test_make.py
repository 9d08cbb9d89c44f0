"""The drivers by their names, and one that was written for Nova; all of them claim what they answer."""

from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from minova import errors
from minova.db import models
from minova.db.engine import Database
from minova.objects.requests.diagnosis import ScheduleAnswer
from minova.placement import changes
from minova.placement.allocations import claims
from minova.scheduler.drivers.nova_driver import Scheduler
from minova.scheduler.manager import SchedulerManager
from tests.functional.placement.cases import claim, claim_of, held
from tests.functional.scheduler.cloud import flavor, inventory_rows, put_host, read_anew, spec_of, unbalanced, uuids
from tests.functional.scheduler.schedulers import ask, hosts, in_parallel, manager_of
from tests.functional.scheduler.test_groups import group_of

DRIVERS = ("filter_scheduler", "chance_scheduler", "caching_scheduler")


def chosen(answer: ScheduleAnswer) -> list[str]:
    return [selections[0].host for selections in answer.selections]


def manager_with_driver(db: Database, driver: str, **options: Any) -> SchedulerManager:
    return manager_of(db, scheduler__driver=driver, **options)


def change_service(db: Database, host: str, **values: Any) -> None:
    def work(session: Session) -> None:
        session.execute(update(models.Service).where(models.Service.host == host).values(**values))
        changes.append(session, [changes.EVERY_NODE])

    db.run(work)


def refresh(manager: SchedulerManager) -> None:
    """What the periodic task does."""
    next(task for task in manager.periodic_tasks() if task.name == "refresh_hosts").work()


@pytest.fixture(params=[*DRIVERS, f"{__name__}.LastHost"])
def manager(request: pytest.FixtureRequest, db: Database) -> SchedulerManager:
    hosts(db, 4)
    return manager_with_driver(db, request.param)


# -- every driver ------------------------------------------------------------------------------------------------------


def test_what_is_answered_is_claimed(manager: SchedulerManager, db: Database) -> None:
    answer = ask(manager, 2, alternates=1)
    assert len(answer.selections) == 2
    for number, host in enumerate(chosen(answer)):
        assert held(db, f"i-{number}") == {(host, "VCPU"): 1, (host, "MEMORY_MB"): 2048, (host, "DISK_GB"): 10}
    assert answer.diagnosis.selected == tuple((host, host) for host in chosen(answer))
    assert not unbalanced(inventory_rows(db))


def test_alternates_are_other_hosts(manager: SchedulerManager) -> None:
    for selections in ask(manager, 3, alternates=2).selections:
        assert len({selection.host for selection in selections}) == len(selections) <= 3


def test_ignored_hosts_are_left_out(manager: SchedulerManager) -> None:
    answer = ask(manager, alternates=3, spec=spec_of(ignore_hosts=("h1", "H2")))
    assert {selection.host for selection in answer.selections[0]} <= {"h0", "h3"}


def test_forced_hosts_alone_are_left(manager: SchedulerManager) -> None:
    assert [
        selection.host for selection in ask(manager, alternates=3, spec=spec_of(force_hosts=("h2",))).selections[0]
    ] == ["h2"]


def test_a_no_says_why(manager: SchedulerManager, db: Database) -> None:
    answer = ask(manager, spec=spec_of(flavor(memory_mb=10**6)))
    assert answer.selections == ()
    assert "placement removed 4" in answer.diagnosis.summary()
    assert all(row[3] == 0 for row in inventory_rows(db))


def test_a_full_cloud_is_filled_to_the_brim_and_no_further(manager: SchedulerManager, db: Database) -> None:
    spec = spec_of(flavor(memory_mb=16384))
    answers = [ask(manager, prefix=f"r{number}", spec=spec) for number in range(10)]
    assert [len(answer.selections) for answer in answers] == [1] * 8 + [0] * 2
    assert not unbalanced(inventory_rows(db))


def test_a_host_that_another_scheduler_fills_is_passed_over(manager: SchedulerManager, db: Database) -> None:
    ask(manager)
    for number in range(3):
        claim(db, claim_of(f"other-{number}", f"h{number}", MEMORY_MB=30000))
    spec = spec_of(flavor(memory_mb=4096))
    assert {host for n in range(4) for host in chosen(ask(manager, prefix=f"p{n}", spec=spec))} == {"h3"}
    assert not unbalanced(inventory_rows(db))


def test_a_hard_group_policy_is_kept_and_finds_its_hosts(manager: SchedulerManager, db: Database) -> None:
    spec = spec_of(instance_group=group_of(db, "anti-affinity", 4))
    answers = [ask(manager, prefix=f"m{number}", spec=spec) for number in range(4)]
    assert sorted(host for answer in answers for host in chosen(answer)) == ["h0", "h1", "h2", "h3"]
    assert not unbalanced(inventory_rows(db))


@pytest.mark.parametrize("driver", DRIVERS)
def test_several_of_one_kind_together_never_overfill(driver: str, db: Database) -> None:
    hosts(db, 4, memory_mb=8192)
    answers = in_parallel([manager_with_driver(db, driver) for _ in range(3)], requests=24, size=1)
    assert sum(len(answer.selections) for answer in answers) == 16
    assert not unbalanced(inventory_rows(db))


def test_an_unknown_driver_stops_the_start_and_the_known_are_listed(db: Database) -> None:
    with pytest.raises(errors.InvalidConfiguration, match="caching_scheduler, chance_scheduler, filter_scheduler"):
        manager_with_driver(db, "fifo_scheduler")


def test_a_class_that_is_no_driver_stops_the_start(db: Database) -> None:
    with pytest.raises(errors.InvalidConfiguration, match=r"\[scheduler\] driver: 'json.JSONDecoder' derives neither"):
        manager_with_driver(db, "json.JSONDecoder")


# -- chance ------------------------------------------------------------------------------------------------------------


def test_chance_takes_any_host_in_the_end(db: Database) -> None:
    hosts(db, 4, memory_mb=10**6)
    manager = manager_with_driver(db, "chance_scheduler")
    first, second = set(), set()
    for number in range(60):
        answer = ask(manager, prefix=f"r{number}", alternates=1)
        first.add(answer.selections[0][0].host)
        second.add(answer.selections[0][1].host)
    assert first == second == {"h0", "h1", "h2", "h3"}


def test_chance_gives_each_instance_a_host_of_its_own_as_long_as_there_are_any(db: Database) -> None:
    hosts(db, 4)
    manager = manager_with_driver(db, "chance_scheduler")
    for number in range(5):
        assert sorted(chosen(ask(manager, 4, prefix=f"r{number}"))) == ["h0", "h1", "h2", "h3"]
    assert len(chosen(ask(manager, 6, prefix="more"))) == 6


@pytest.mark.parametrize("values", [{"disabled": True}, {"forced_down": True}, {"down_reason": "libvirtd is away"}])
def test_chance_takes_no_host_that_is_down_or_disabled(values: dict[str, Any], db: Database) -> None:
    hosts(db, 2)
    change_service(db, "h0", **values)
    manager = manager_with_driver(db, "chance_scheduler")
    assert {host for number in range(8) for host in chosen(ask(manager, prefix=f"r{number}"))} == {"h1"}


def test_chance_asks_no_other_filter(db: Database) -> None:
    put_host(db, "h0")
    assert chosen(ask(manager_with_driver(db, "chance_scheduler"), spec=spec_of(availability_zone="nowhere"))) == ["h0"]
    nowhere = spec_of(availability_zone="nowhere")
    assert chosen(ask(manager_with_driver(db, "filter_scheduler"), prefix="filtered", spec=nowhere)) == []


# -- caching -----------------------------------------------------------------------------------------------------------


def test_caching_sees_what_has_changed_at_the_next_refresh(db: Database) -> None:
    hosts(db, 2)
    manager = manager_with_driver(db, "caching_scheduler")
    ask(manager)
    change_service(db, "h1", disabled=True)
    assert set(chosen(ask(manager, 2, prefix="before"))) == {"h0", "h1"}
    refresh(manager)
    assert set(chosen(ask(manager, 2, prefix="after"))) == {"h0"}


def test_caching_reads_only_the_rows_that_it_has_filled(db: Database) -> None:
    hosts(db, 20)
    manager = manager_with_driver(db, "caching_scheduler")
    ask(manager)
    driver: Any = manager.driver
    before = list(driver.source.table.records)
    db.run(lambda session: changes.append(session, range(1, 21)))
    for number in range(5):
        ask(manager, prefix=f"r{number}")
    assert len(read_anew(driver.source.table, before)) == 5


def test_caching_reads_everything_before_it_says_no(db: Database) -> None:
    hosts(db, 1, memory_mb=2048)
    manager = manager_with_driver(db, "caching_scheduler")
    ask(manager, prefix="first")
    assert ask(manager, prefix="second").selections == ()
    db.run(lambda session: claims.release(session, uuids(1, "first")))
    assert chosen(ask(manager, prefix="second", claim_number=2)) == ["h0"]


@pytest.mark.parametrize(("interval", "expected"), [(0, [60.0]), (7, [7.0]), (-1, [])])
def test_the_interval_of_caching(interval: int, expected: list[float], db: Database) -> None:
    manager = manager_with_driver(db, "caching_scheduler", scheduler__periodic_task_interval=interval)
    assert [task.interval for task in manager.periodic_tasks() if task.name == "refresh_hosts"] == expected


# -- a driver written for Nova -----------------------------------------------------------------------------------------


class LastHost(Scheduler):
    """As a user would have written it for Nova: the last of those that Placement offers and that are up."""

    def select_destinations(
        self,
        context: Any,
        spec_obj: Any,
        instance_uuids: Any,
        alloc_reqs_by_rp_uuid: Any,
        provider_summaries: Any,
        allocation_request_version: Any = None,
        return_alternates: bool = False,
    ) -> Any:
        assert allocation_request_version
        states = self.host_manager.get_host_states_by_uuids(context, provider_summaries.keys(), spec_obj)
        up = set(self.hosts_up(context, "compute"))
        up_states = [state for state in states if state.host in up][::-1]
        inventory = alloc_reqs_by_rp_uuid[up_states[0].uuid][0]["allocations"][up_states[0].uuid]["resources"][
            "MEMORY_MB"
        ]
        assert inventory == spec_obj.flavor.memory_mb
        return [up_states for _ in instance_uuids]


class Refusing(LastHost):
    def select_destinations(self, *args: Any, **kwargs: Any) -> Any:
        raise errors.NoValidHost("The moon is wrong.")


class Stingy(LastHost):
    def select_destinations(self, *args: Any, **kwargs: Any) -> Any:
        return super().select_destinations(*args, **kwargs)[:1]


class ByWeight(LastHost):
    """With the configured filters and weighers, as Nova's own drivers use the host manager."""

    def select_destinations(self, context: Any, spec_obj: Any, instance_uuids: Any, *args: Any, **kwargs: Any) -> Any:
        best_states = []
        for index, _ in enumerate(instance_uuids):
            states = self.host_manager.get_all_host_states(context)
            left = self.host_manager.get_filtered_hosts(states, spec_obj, index)
            best = [weighed.obj for weighed in self.host_manager.get_weighed_hosts(left, spec_obj)]
            best[0].consume_from_request(spec_obj)
            best_states.append(best)
        return best_states


class Lost(LastHost):
    def select_destinations(self, *args: Any, **kwargs: Any) -> Any:
        selection = super().select_destinations(*args, **kwargs)[0][0]
        return [[type("Selection", (), {"service_host": "gone", "nodename": selection.nodename})]]


def test_a_driver_written_for_nova_runs_after_changing_its_import(db: Database) -> None:
    hosts(db, 3)
    answer = ask(manager_with_driver(db, f"{__name__}.LastHost"), alternates=1)
    assert [selection.host for selection in answer.selections[0]] == ["h2", "h1"]
    assert [step.name for step in answer.diagnosis.steps] == ["placement"]


def test_it_sees_who_is_up(db: Database) -> None:
    hosts(db, 3)
    change_service(db, "h2", forced_down=True)
    assert chosen(ask(manager_with_driver(db, f"{__name__}.LastHost"))) == ["h1"]


def test_its_own_no_is_a_no_with_its_reason(db: Database) -> None:
    hosts(db, 3)
    answer = ask(manager_with_driver(db, f"{__name__}.Refusing"))
    assert (answer.selections, answer.diagnosis.error) == ((), "The moon is wrong.")


def test_fewer_hosts_than_instances_is_a_no(db: Database) -> None:
    hosts(db, 3)
    answer = ask(manager_with_driver(db, f"{__name__}.Stingy"), 2)
    assert (answer.selections, answer.diagnosis.found) == ((), 1)
    assert all(row[3] == 0 for row in inventory_rows(db))


def test_it_may_use_the_configured_filters_and_weighers(db: Database) -> None:
    hosts(db, 3)
    put_host(db, "large", memory_mb=65536)
    change_service(db, "h1", disabled=True)
    answer = ask(manager_with_driver(db, f"{__name__}.ByWeight"), 2, alternates=5)
    assert chosen(answer)[0] == "large"
    assert {selection.host for selections in answer.selections for selection in selections} == {"large", "h0", "h2"}


def test_an_unknown_host_is_an_error(db: Database) -> None:
    hosts(db, 1)
    with pytest.raises(errors.MinovaError, match="chose gone, node h0, which is not known"):
        ask(manager_with_driver(db, f"{__name__}.Lost"))


# -- counters ----------------------------------------------------------------------------------------------------------


def test_conflicts_are_counted_and_told_once(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    hosts(db, 2, memory_mb=4096)
    manager = manager_with_driver(db, "caching_scheduler")
    (taken,) = chosen(ask(manager))
    claim(db, claim_of("other", "h0" if taken == "h1" else "h1", MEMORY_MB=3000))
    manager.log_conflicts()
    assert "Claims refused since the start" not in caplog.text
    assert chosen(ask(manager, prefix="next")) == [taken]
    conflicts = manager.driver.conflicts
    assert (conflicts.claims_refused, conflicts.decisions_repeated) == (1, 1)
    manager.log_conflicts()
    manager.log_conflicts()
    assert caplog.text.count("Claims refused since the start: 1, decisions repeated: 1") == 1
