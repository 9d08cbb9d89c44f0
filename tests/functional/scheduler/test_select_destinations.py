"""select_destinations on a database: claims are durable, never over capacity, and a "no" says why."""

import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from minova import errors
from minova.db import models
from minova.db.engine import Database
from minova.objects.requests.diagnosis import ScheduleAnswer
from minova.objects.requests.request_spec import RequestSpec
from minova.placement import changes
from minova.placement.allocations import claims
from minova.scheduler.filters import BaseHostFilter
from tests.functional.placement.cases import claim, claim_of, held
from tests.functional.scheduler.cloud import flavor, inventory_rows, named, spec_of, unbalanced, uuids
from tests.functional.scheduler.schedulers import ask, hosts, in_parallel, manager_of


def chosen(answer: ScheduleAnswer) -> list[str]:
    return [selections[0].host for selections in answer.selections]


def test_the_answer_is_claimed_before_it_is_given(db: Database) -> None:
    hosts(db, 3)
    answer = ask(manager_of(db), 3)
    assert sorted(chosen(answer)) == ["h0", "h1", "h2"]
    assert answer.diagnosis.selected == tuple((host, host) for host in chosen(answer))
    assert [len(selections) for selections in answer.selections] == [3, 3, 3]
    for number, host in enumerate(chosen(answer)):
        assert held(db, f"i-{number}") == {(host, "VCPU"): 1, (host, "MEMORY_MB"): 2048, (host, "DISK_GB"): 10}
    assert not unbalanced(inventory_rows(db))


def test_asked_again_with_a_higher_number_the_claim_is_replaced(db: Database) -> None:
    hosts(db, 3)
    manager = manager_of(db)
    for number in range(1, 6):
        ask(manager, 2, claim_number=number)
    assert sum(row[3] for row in inventory_rows(db) if row[1] == "VCPU") == 2
    assert not unbalanced(inventory_rows(db))


def test_a_late_claim_is_refused(db: Database) -> None:
    hosts(db, 3)
    manager = manager_of(db)
    ask(manager, claim_number=2)
    with pytest.raises(errors.StaleClaim):
        ask(manager, claim_number=1)


def test_all_or_nothing(db: Database) -> None:
    hosts(db, 2, memory_mb=4096)
    answer = ask(manager_of(db), 5)
    assert answer.selections == ()
    assert answer.diagnosis.found == 4
    assert answer.diagnosis.summary() == (
        "No valid host was found. Only 4 of 5 instances had one. "
        "2 hosts: placement removed 2 (not enough free MEMORY_MB)."
    )
    assert {lost_host.reason for lost_host in answer.diagnosis.steps[0].lost} == {
        "free MEMORY_MB 0 < requested 2048 (capacity 4096, used 4096)"
    }
    assert all(row[3] == 0 for row in inventory_rows(db))


def test_every_filter_that_removed_hosts_is_named(db: Database) -> None:
    hosts(db, 3)
    db.run(lambda s: s.execute(update(models.Service).where(models.Service.host == "h0").values(disabled=True)))
    db.run(
        lambda s: s.execute(update(models.ComputeNode).where(models.ComputeNode.host != "h0").values(memory_mb=1024))
    )
    answer = ask(manager_of(db))
    assert answer.diagnosis.summary() == (
        "No valid host was found. 3 hosts: ComputeFilter removed 1, RamFilter removed 2 (not enough free memory)."
    )


def test_fifty_hosts_two_hundred_instances_in_one_request(db: Database) -> None:
    hosts(db, 50, memory_mb=8192)
    answer = ask(manager_of(db), 200)
    assert len(answer.selections) == 200
    assert all(row[3] == row[2] for row in inventory_rows(db) if row[1] == "MEMORY_MB")
    assert not unbalanced(inventory_rows(db))


def test_several_schedulers_fill_a_cloud_to_the_brim_and_no_further(db: Database) -> None:
    hosts(db, 10, memory_mb=8192)
    answers = in_parallel([manager_of(db) for _ in range(3)], requests=60, size=1)
    assert len(answers) == 60
    assert sum(len(answer.selections) for answer in answers) == 40
    assert not unbalanced(inventory_rows(db))
    assert all(row[3] == row[2] for row in inventory_rows(db) if row[1] == "MEMORY_MB")
    assert all("placement removed 10" in a.diagnosis.summary() for a in answers if not a.selections)


def test_groups_of_several_schedulers_are_placed_whole_or_not_at_all(db: Database) -> None:
    hosts(db, 5, memory_mb=8192)
    answers = in_parallel([manager_of(db) for _ in range(2)], requests=10, size=3)
    assert {len(answer.selections) for answer in answers} <= {0, 3}
    placed = sum(len(answer.selections) for answer in answers)
    assert 15 <= placed <= 18
    assert sum(row[3] for row in inventory_rows(db) if row[1] == "VCPU") == placed
    assert not unbalanced(inventory_rows(db))


def test_a_host_that_another_scheduler_filled_meanwhile_is_read_again_and_passed_over(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    hosts(db, 2, memory_mb=4096)
    manager = manager_of(db)
    ask(manager, prefix="first")
    # Filled without a word in the feed, so that this scheduler's table is stale when it decides.
    with db.read() as session:
        seen = max(session.scalars(select(models.HostChange.seq)))
    claim(db, claim_of("other", "h1", MEMORY_MB=4096))
    db.run(lambda s: s.execute(delete(models.HostChange).where(models.HostChange.seq > seen)))
    answer = ask(manager, prefix="second")
    assert "h1: free MEMORY_MB 0 < requested 2048" in caplog.text
    assert chosen(answer) == ["h0"]
    assert not unbalanced(inventory_rows(db))


def test_a_disabled_host_gets_nothing_as_soon_as_it_is_disabled(db: Database) -> None:
    hosts(db, 2)
    manager = manager_of(db)
    ask(manager)
    db.run(lambda s: s.execute(update(models.Service).where(models.Service.host == "h1").values(disabled=True)))
    db.run(lambda session: changes.append(session, [2]))
    assert {host for number in range(4) for host in chosen(ask(manager, prefix=f"p{number}"))} == {"h0"}


def test_what_was_released_can_be_given_again(db: Database) -> None:
    hosts(db, 1, memory_mb=2048)
    manager = manager_of(db)
    ask(manager, prefix="first")
    assert ask(manager, prefix="second").selections == ()
    db.run(lambda session: claims.release(session, uuids(1, "first")))
    assert chosen(ask(manager, prefix="second", claim_number=2)) == ["h0"]


def test_a_request_that_fails_does_not_fail_those_that_wait_with_it(db: Database) -> None:
    hosts(db, 4)
    manager = manager_of(db)
    ask(manager, prefix="stale", claim_number=9)
    outcomes: dict[str, Any] = {}

    def one(prefix: str, spec: RequestSpec) -> None:
        try:
            outcomes[prefix] = ask(manager, prefix=prefix, spec=spec)
        except errors.StaleClaim as error:
            outcomes[prefix] = error

    wishes = {"stale": spec_of(), "huge": spec_of(flavor(memory_mb=10**6)), **{f"ok{n}": spec_of() for n in range(12)}}
    threads = [threading.Thread(target=one, args=wish) for wish in wishes.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert isinstance(outcomes.pop("stale"), errors.StaleClaim)
    assert outcomes.pop("huge").selections == ()
    assert all(len(answer.selections) == 1 for answer in outcomes.values())


def test_a_lost_database_is_an_answer_to_try_again_and_nothing_is_forgotten(db: Database, tmp_path: Path) -> None:
    hosts(db, 1)
    manager = manager_of(db)
    ask(manager, prefix="first")
    db.close()
    away = tmp_path.rename(tmp_path.with_suffix(".away"))
    with pytest.raises(errors.ServiceUnavailable, match="database"):
        ask(manager, prefix="second")
    away.rename(tmp_path)
    assert chosen(ask(manager, prefix="second")) == ["h0"]


class BrokenFilter(BaseHostFilter):
    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        raise KeyError("rack")


def test_a_filter_that_raises_fails_the_request_and_leaves_a_traceback(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    hosts(db, 1)
    manager = manager_of(db, filter_scheduler__enabled_filters=[f"{__name__}.BrokenFilter"])
    with pytest.raises(errors.MinovaError, match="BrokenFilter failed: KeyError"):
        ask(manager)
    assert 'raise KeyError("rack")' in caplog.text
    assert all(row[3] == 0 for row in inventory_rows(db))


def test_an_unknown_driver_stops_the_start(db: Database) -> None:
    with pytest.raises(errors.InvalidConfiguration, match=r"\[scheduler\] driver.*filter_scheduler"):
        manager_of(db, scheduler__driver="chance")


def test_consumers_keep_project_and_user(db: Database) -> None:
    hosts(db, 1)
    ask(manager_of(db))
    with db.read() as session:
        consumer = session.scalars(select(models.Consumer).where(models.Consumer.uuid == named("i-0"))).one()
    assert (consumer.project_id, consumer.user_id, consumer.claim_number) == ("p", "u", 1)


def test_the_log_reads_as_novas(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    hosts(db, 2)
    manager = manager_of(db)
    with caplog.at_level("DEBUG", logger="minova.scheduler"):
        ask(manager)
    shown = "(h0, h0) ram: 32768MB disk: 512000MB io_ops: 0 instances: 0"
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("minova.scheduler")]
    assert lines[0] == f"Starting to schedule for instances: ['{named('i-0')}']"
    assert lines[1:4] == [
        "Starting with 2 host(s)",
        "Filter AvailabilityZoneFilter returned 2 host(s)",
        "Filter ComputeFilter returned 2 host(s)",
    ]
    assert lines[-1] == f"Selected host: {shown}"
    assert any(line.startswith(f"Filtered [{shown}, (h1, h1)") for line in lines)
    assert any(line.startswith(f"Weighed [WeighedHost [host: {shown}, weight: 3.0]") for line in lines)
