"""Options of [scheduler] and [filter_scheduler] and what a request names, from select_destinations upward."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from oslo_messaging.notify import _impl_test
from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from minova import errors
from minova.db import models
from minova.db.engine import Database
from minova.messaging.notifier import Notifier
from minova.objects.catalogue.image import Image
from minova.objects.hosts.numa import InstanceNUMACell, InstanceNUMATopology
from minova.objects.requests.diagnosis import ScheduleAnswer
from minova.objects.requests.request_spec import Retry
from minova.placement import changes
from minova.placement.allocations import claims
from minova.scheduler.filters import BaseHostFilter
from minova.scheduler.manager import SchedulerManager
from tests.functional.placement.cases import held
from tests.functional.scheduler.cloud import SEEN, conf_of, flavor, named, put_host, spec_of, uuids
from tests.functional.scheduler.schedulers import ask, hosts, manager_of
from tests.unit.messaging.test_notifier import conf_of as notifier_conf


def chosen(answer: ScheduleAnswer) -> list[str]:
    return [selections[0].host for selections in answer.selections]


def hosts_drawn(db: Database, times: int, **options: Any) -> Counter[str]:
    """Who is chosen by requests that leave nothing behind for the next."""
    manager = manager_of(db, **options)
    count_by_host: Counter[str] = Counter()
    for number in range(times):
        count_by_host.update(chosen(ask(manager, prefix=f"r{len(options)}-{number}")))
        db.run(lambda session, n=number: claims.release(session, uuids(1, f"r{len(options)}-{n}")))  # type: ignore[misc]
    return count_by_host


# -- how one of the best is chosen -------------------------------------------------------------------------------------


def test_the_best_is_chosen_unless_a_subset_is_drawn_from(db: Database) -> None:
    for number, memory_mb in enumerate((64000, 48000, 32000, 16000)):
        put_host(db, f"h{number}", memory_mb=memory_mb)
    only_ram = {"filter_scheduler__weight_classes": ["RAMWeigher"]}
    assert set(hosts_drawn(db, 10, **only_ram)) == {"h0"}
    assert set(hosts_drawn(db, 40, filter_scheduler__host_subset_size=3, **only_ram)) == {"h0", "h1", "h2"}


def test_a_subset_larger_than_the_hosts_is_all_of_them(db: Database) -> None:
    hosts(db, 2)
    assert set(hosts_drawn(db, 20, filter_scheduler__host_subset_size=50)) == {"h0", "h1"}


def test_equals_are_shuffled_only_if_asked_for(db: Database) -> None:
    hosts(db, 3)
    put_host(db, "small", memory_mb=4096)
    assert set(hosts_drawn(db, 10)) == {"h0"}
    shuffled = hosts_drawn(db, 40, filter_scheduler__shuffle_best_same_weighed_hosts=True)
    assert set(shuffled) == {"h0", "h1", "h2"}


@pytest.mark.parametrize(("most", "host"), [(1000, "large"), (2, "h0")])
def test_no_more_candidates_than_max_placement_results_are_weighed(most: int, host: str, db: Database) -> None:
    hosts(db, 3)
    put_host(db, "large", memory_mb=65536)
    manager = manager_of(db, scheduler__max_placement_results=most)
    assert chosen(ask(manager)) == [host]


def test_a_host_beyond_max_placement_results_is_found_when_those_before_are_filtered_out(db: Database) -> None:
    hosts(db, 4)
    db.run(lambda s: s.execute(update(models.Service).where(models.Service.host != "h3").values(disabled=True)))
    assert chosen(ask(manager_of(db, scheduler__max_placement_results=2))) == ["h3"]


@pytest.mark.parametrize("hint", ["group", "same_host", "different_host"])
def test_a_request_that_speaks_of_other_servers_looks_at_every_candidate(hint: str, db: Database) -> None:
    hosts(db, 3)
    put_host(db, "large", memory_mb=65536)
    manager = manager_of(db, scheduler__max_placement_results=2, filter_scheduler__enabled_filters=["ComputeFilter"])
    assert chosen(ask(manager, spec=spec_of(scheduler_hints={hint: named("x")}))) == ["large"]


# -- forced, ignored, tried --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wishes", "expected", "line"),
    [
        ({"ignore_hosts": ("h0", "nobody")}, {"h1", "h2"}, "Host filter ignoring hosts: h0"),
        ({"ignore_hosts": ("H0",)}, {"h1", "h2"}, "Host filter ignoring hosts: H0"),
        ({"force_hosts": ("h2",)}, {"h2"}, "Host filter forcing available hosts to h2"),
        ({"force_hosts": ("h1", "h2")}, {"h1", "h2"}, "Host filter forcing available hosts to h1, h2"),
        ({"force_nodes": ("h1",)}, {"h1"}, "Host filter forcing available nodes to h1"),
        (
            {"force_hosts": ("nobody",)},
            set(),
            "No hosts matched due to not matching 'force_hosts' value of 'nobody'",
        ),
        (
            {"force_nodes": ("nobody",)},
            set(),
            "No nodes matched due to not matching 'force_nodes' value of 'nobody'",
        ),
        (
            {"force_hosts": ("h1",), "ignore_hosts": ("h1",)},
            set(),
            "Host filter ignoring hosts: h1",
        ),
    ],
)
def test_ignored_and_forced_hosts(
    wishes: dict[str, Any], expected: set[str], line: str, db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    hosts(db, 3)
    with caplog.at_level("INFO", logger="minova.scheduler"):
        answer = ask(manager_of(db), alternates=2, spec=spec_of(**wishes))
    assert {selection.host for selections in answer.selections for selection in selections} == expected
    assert line in caplog.messages


def test_a_forced_host_skips_the_filters_but_not_its_room(db: Database) -> None:
    hosts(db, 2, memory_mb=4096)
    db.run(lambda s: s.execute(update(models.Service).values(disabled=True)))
    manager = manager_of(db)
    assert ask(manager).selections == ()
    assert chosen(ask(manager, 2, spec=spec_of(force_hosts=("h1",)))) == ["h1", "h1"]
    assert ask(manager, prefix="more", spec=spec_of(force_hosts=("h1",))).selections == ()


def test_hosts_that_were_tried_are_passed_over_by_the_retry_filter_alone(db: Database) -> None:
    hosts(db, 3)
    tried = spec_of(retry=Retry(num_attempts=2, hosts=(("h0", "h0"), ("h1", "other-node"))))
    with_filter = manager_of(db, filter_scheduler__enabled_filters=["RetryFilter", "ComputeFilter"])
    answer = ask(with_filter, alternates=2, spec=tried)
    assert {selection.host for selection in answer.selections[0]} == {"h1", "h2"}
    without = ask(manager_of(db), alternates=2, spec=tried, prefix="without")
    assert {selection.host for selection in without.selections[0]} == {"h0", "h1", "h2"}


# -- the log -----------------------------------------------------------------------------------------------------------


def test_the_log_tells_the_whole_story_in_novas_words(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    hosts(db, 3)
    put_host(db, "small", memory_mb=4096)
    manager = manager_of(
        db, filter_scheduler__enabled_filters=["ComputeFilter"], filter_scheduler__weight_classes=["RAMWeigher"]
    )
    with caplog.at_level("DEBUG", logger="minova.scheduler"):
        ask(manager, 2, spec=spec_of(ignore_hosts=("h2",)))
    shown = {
        name: f"({name}, {name}) ram: {ram}MB disk: 512000MB io_ops: 0 instances: 0"
        for name, ram in (("h0", 32768), ("h1", 32768), ("small", 4096))
    }
    weights = (("h0", 1.0), ("h1", 1.0), ("small", 0.125))
    messages = [line for line in caplog.messages if not line.startswith("read")]
    assert messages[:9] == [
        f"Starting to schedule for instances: ['{named('i-0')}', '{named('i-1')}']",
        "Host filter ignoring hosts: h2",
        "Starting with 3 host(s)",
        "Filter ComputeFilter returned 3 host(s)",
        f"Filtered [{shown['h0']}, {shown['h1']}, {shown['small']}]",
        f"Weighed [{', '.join(f'WeighedHost [host: {shown[name]}, weight: {weight}]' for name, weight in weights)}]",
        f"Selected host: {shown['h0']}",
        "Host filter ignoring hosts: h2",
        "Starting with 3 host(s)",
    ]
    assert messages[-1] == f"Selected host: {shown['h1']}"


def test_a_run_stops_when_no_host_is_left(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    hosts(db, 2)
    db.run(lambda s: s.execute(update(models.Service).values(disabled=True)))
    with caplog.at_level("DEBUG", logger="minova.scheduler"):
        ask(manager_of(db, filter_scheduler__enabled_filters=["ComputeFilter", "RamFilter"]))
    assert "Filter ComputeFilter returned 0 host(s)" in caplog.messages
    assert not any("RamFilter returned" in line for line in caplog.messages)


def test_log_lines_that_are_switched_off_cost_nothing(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    hosts(db, 2)
    with caplog.at_level("INFO", logger="minova.scheduler"):
        ask(manager_of(db))
    assert caplog.messages == []


# -- Placement first ---------------------------------------------------------------------------------------------------


def change(db: Database, work: Any) -> None:
    """As a client that may change providers does, with its entry in the feed."""

    def whole(session: Session) -> None:
        work(session)
        changes.append(session, [changes.EVERY_NODE])

    db.run(whole)


def provider_id(session: Session, host: str) -> int:
    provider = models.ResourceProvider
    return session.scalars(select(provider.id).where(provider.uuid == named(f"node {host}"))).one()


def give_trait(db: Database, host: str, trait: str) -> None:
    row = models.ProviderTrait
    change(db, lambda s: s.execute(insert(row).values(provider_id=provider_id(s, host), trait=trait)))


def give_aggregate(db: Database, host: str, uuid: str) -> None:
    row = models.ProviderAggregate
    change(db, lambda s: s.execute(insert(row).values(provider_id=provider_id(s, host), aggregate_uuid=uuid)))


def aggregate(db: Database, name: str, members: tuple[str, ...] = (), **metadata: str) -> str:
    def work(session: Session) -> None:
        aggregate = models.Aggregate(uuid=named(name), name=name, metadata_=metadata, created_at=SEEN)
        session.add(aggregate)
        session.flush()
        for host in members:
            session.add(models.AggregateHost(aggregate_id=aggregate.id, host=host))

    change(db, work)
    return named(name)


def test_a_trait_of_a_provider_decides_who_is_a_candidate(db: Database) -> None:
    hosts(db, 3)
    manager = manager_of(db)
    ask(manager)
    required = spec_of(flavor(extra_specs={"trait:CUSTOM_FAST": "required"}))
    forbidden = spec_of(flavor(extra_specs={"trait:CUSTOM_FAST": "forbidden"}))
    answer = ask(manager, prefix="none", spec=required)
    assert (
        answer.diagnosis.summary() == "No valid host was found. 3 hosts: placement removed 3 (traits not as asked for)."
    )
    assert answer.diagnosis.steps[0].lost[0].reason == "without the required traits CUSTOM_FAST"
    give_trait(db, "h1", "CUSTOM_FAST")
    assert chosen(ask(manager, 2, prefix="fast", spec=required)) == ["h1", "h1"]
    assert "h1" not in chosen(ask(manager, 4, prefix="slow", spec=forbidden))
    change(db, lambda s: s.execute(delete(models.ProviderTrait)))
    assert ask(manager, prefix="gone", spec=required).selections == ()


def test_a_node_whose_compute_calls_it_disabled_is_no_candidate(db: Database) -> None:
    hosts(db, 2)
    give_trait(db, "h0", "COMPUTE_STATUS_DISABLED")
    assert set(chosen(ask(manager_of(db), 4))) == {"h1"}


def test_an_images_trait_counts_too(db: Database) -> None:
    hosts(db, 2)
    give_trait(db, "h1", "CUSTOM_TPM")
    image = Image(id=named("image"), properties={"trait:CUSTOM_TPM": "required"})
    assert set(chosen(ask(manager_of(db), 3, spec=spec_of(image=image)))) == {"h1"}


def test_a_class_of_its_own_is_claimed_with_the_rest(db: Database) -> None:
    hosts(db, 2)

    def work(session: Session) -> None:
        values = {"total": 2, "max_unit": 2, "capacity": 2, "resource_class": "CUSTOM_GPU"}
        session.execute(insert(models.Inventory).values(provider_id=provider_id(session, "h1"), **values))

    change(db, work)
    manager = manager_of(db)
    spec = spec_of(flavor(extra_specs={"resources:CUSTOM_GPU": "1", "resources:DISK_GB": "0"}))
    assert chosen(ask(manager, 2, spec=spec)) == ["h1", "h1"]
    assert held(db, "i-0") == {("h1", "VCPU"): 1, ("h1", "MEMORY_MB"): 2048, ("h1", "CUSTOM_GPU"): 1}
    assert ask(manager, prefix="more", spec=spec).selections == ()


@pytest.mark.parametrize("how", ["hosts of the aggregate", "Placement's own"])
@pytest.mark.parametrize(("limit", "expected"), [(True, {"h1"}), (False, {"h0", "h1", "h2"})])
def test_a_project_may_be_kept_to_its_aggregate(limit: bool, expected: set[str], how: str, db: Database) -> None:
    hosts(db, 3)
    uuid = aggregate(db, "mine", ("h1",) if how == "hosts of the aggregate" else (), filter_tenant_id="p")
    if how == "Placement's own":
        give_aggregate(db, "h1", uuid)
    manager = manager_of(db, scheduler__limit_tenants_to_placement_aggregate=limit)
    assert set(chosen(ask(manager, 6))) == expected


def test_an_aggregate_without_hosts_keeps_its_project_from_every_host(db: Database) -> None:
    hosts(db, 2)
    aggregate(db, "mine", filter_tenant_id="p")
    answer = ask(manager_of(db, scheduler__limit_tenants_to_placement_aggregate=True))
    assert (
        answer.diagnosis.summary()
        == "No valid host was found. 2 hosts: placement removed 2 (aggregates not as asked for)."
    )


def test_a_project_without_an_aggregate_may_be_refused(db: Database) -> None:
    hosts(db, 2)
    options = {
        "scheduler__limit_tenants_to_placement_aggregate": True,
        "scheduler__placement_aggregate_required_for_tenants": True,
    }
    answer = ask(manager_of(db, **options))
    assert answer.selections == ()
    assert "No hosts available for tenant p" in answer.diagnosis.summary()


def test_a_zone_is_asked_of_placement_whatever_the_filters(db: Database) -> None:
    hosts(db, 3)
    aggregate(db, "north", ("h2",), availability_zone="north")
    manager = manager_of(db, filter_scheduler__enabled_filters=["ComputeFilter"])
    answer = ask(manager, 2, spec=spec_of(availability_zone="north"))
    assert set(chosen(answer)) == {"h2"}
    assert (answer.diagnosis.steps[0].name, answer.diagnosis.steps[0].after) == ("placement", 1)


@pytest.mark.parametrize(("on", "expected"), [(True, {"h0"}), (False, {"h0", "h1"})])
def test_an_isolated_aggregate_is_for_those_that_require_its_trait(on: bool, expected: set[str], db: Database) -> None:
    hosts(db, 2)
    aggregate(db, "windows", ("h1",), **{"trait:CUSTOM_WINDOWS": "required"})
    give_trait(db, "h1", "CUSTOM_WINDOWS")
    manager = manager_of(db, scheduler__enable_isolated_aggregate_filtering=on)
    assert set(chosen(ask(manager, 4))) == expected
    licensed = spec_of(flavor(extra_specs={"trait:CUSTOM_WINDOWS": "required"}))
    assert set(chosen(ask(manager, 2, prefix="w", spec=licensed))) == {"h1"}


@pytest.mark.parametrize(
    ("disable", "pcpu", "expected"),
    [(False, True, "PCPU"), (False, False, "VCPU"), (True, True, "PCPU"), (True, False, None)],
)
def test_pinned_cpus_are_pcpu_or_vcpu(disable: bool, pcpu: bool, expected: str | None, db: Database) -> None:
    hosts(db, 1)
    if pcpu:

        def work(session: Session) -> None:
            values = {"total": 4, "max_unit": 4, "capacity": 4, "resource_class": "PCPU"}
            session.execute(insert(models.Inventory).values(provider_id=provider_id(session, "h0"), **values))

        change(db, work)
    manager = manager_of(
        db,
        workarounds__disable_fallback_pcpu_query=disable,
        filter_scheduler__enabled_filters=["ComputeFilter"],
    )
    cell = InstanceNUMACell(id=0, pcpuset=frozenset((0,)), memory=2048, cpu_policy="dedicated")
    answer = ask(manager, spec=spec_of(numa_topology=InstanceNUMATopology(cells=(cell,))))
    claimed = {name: amount for (_, name), amount in held(db, "i-0").items() if name.endswith("CPU")}
    assert claimed == ({expected: 1} if expected else {})
    assert len(answer.selections) == len(claimed)


def test_a_malformed_wish_is_an_error_and_not_a_no(db: Database) -> None:
    hosts(db, 1)
    with pytest.raises(errors.BadRequest, match="resources:VCPU='many'"):
        ask(manager_of(db), spec=spec_of(flavor(extra_specs={"resources:VCPU": "many"})))


# -- the options file --------------------------------------------------------------------------------------------------


class HostsOfTheFile(BaseHostFilter):
    """As a user would write it: the file says which hosts may be used."""

    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        allowed = spec_obj.config_options.get("allowed")
        return allowed is None or host_state.host in allowed


def test_the_options_file_reaches_filters_and_is_read_again_when_it_changes(db: Database, tmp_path: Path) -> None:
    hosts(db, 3)
    file = tmp_path / "scheduler.json"
    manager = manager_of(
        db,
        scheduler__scheduler_json_config_location=str(file),
        filter_scheduler__enabled_filters=[f"{__name__}.HostsOfTheFile"],
    )

    def used(prefix: str, text: str | None = None) -> set[str]:
        if text is not None:
            new = tmp_path / prefix
            new.write_text(text)
            new.replace(file)
        return set(chosen(ask(manager, 6, prefix=prefix)))

    assert used("missing") == {"h0", "h1", "h2"}
    assert used("two", json.dumps({"allowed": ["h0", "h2"]})) == {"h0", "h2"}
    assert used("broken", '{"allowed": [') == {"h0", "h2"}
    assert used("one", json.dumps({"allowed": ["h1"]})) == {"h1"}


def test_a_malformed_options_file_stops_the_start(db: Database, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text('{\n"a": nothing}')
    with pytest.raises(errors.InvalidConfiguration, match=f"{file}, line 2 column 6"):
        manager_of(db, scheduler__scheduler_json_config_location=str(file))


# -- notifications -----------------------------------------------------------------------------------------------------


@pytest.fixture
def notifier() -> Iterator[Notifier]:
    _impl_test.reset()
    notifier = Notifier(notifier_conf(["test"]))
    yield notifier
    notifier.stop()
    _impl_test.reset()


@pytest.mark.parametrize(("memory_mb", "phases"), [(2048, ["start", "end"]), (10**6, ["start"])])
def test_the_scheduler_tells_what_it_begins_and_what_it_has_found(
    memory_mb: int, phases: list[str], db: Database, notifier: Notifier
) -> None:
    hosts(db, 1)
    manager = SchedulerManager(conf_of(), db, None, host="s1", notifier=notifier)
    ask(manager, spec=msgspec.structs.replace(spec_of(flavor(memory_mb=memory_mb)), num_instances=1))
    manager.stop()
    sent = [message for _, message, _, _ in _impl_test.NOTIFICATIONS]
    assert [notification["event_type"] for notification in sent] == [
        f"scheduler.select_destinations.{phase}" for phase in phases
    ]
    assert {notification["publisher_id"] for notification in sent} == {"scheduler.s1"}
    spec = sent[0]["payload"]["request_spec"]
    assert (spec["num_instances"], spec["instance_type"]["memory_mb"]) == (1, memory_mb)
    assert spec["instance_properties"]["project_id"] == "p"


def test_without_a_driver_nothing_is_told(db: Database) -> None:
    hosts(db, 1)
    _impl_test.reset()
    silent = Notifier(notifier_conf([]))
    manager = SchedulerManager(conf_of(), db, None, host="s1", notifier=silent)
    ask(manager)
    manager.stop()
    assert _impl_test.NOTIFICATIONS == []
