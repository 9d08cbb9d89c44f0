"""Filters and weighers of others, loaded as their users would, in their configured place of the chain."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from minova import errors
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.decide.decision import Decision, decide
from minova.scheduler.drivers.filter_scheduler import rules_of
from minova.scheduler.hosts.record import HostRecord
from tests.unit.scheduler.hosts import record, table_of, uuids
from tests.unit.scheduler.requests import aggregates, options, request
from tests.unit.scheduler.third_party.acme_scheduler import ReservedRamFilter

HERE = "tests.unit.scheduler.third_party.acme_scheduler"
RACKS = [aggregates({"rack": "r1"}), aggregates({"rack": "r2"}), aggregates({"rack": "r1"}), ()]


class First:
    """In the place of random.Random."""

    def randrange(self, stop: int) -> int:
        return 0


def decision_of(spec: RequestSpec, hosts: list[HostRecord], count: int = 1, **overrides: Any) -> Decision:
    rules = rules_of(options(**overrides), First())  # type: ignore[arg-type]
    return decide(table_of(*hosts), spec, uuids(count), 0, rules)


def four(**facts: Any) -> list[HostRecord]:
    return [record(number, aggregates=RACKS[number - 1], **facts) for number in range(1, 5)]


def steps(decision: Decision) -> list[tuple[str, int, int]]:
    return [(step.name, step.before, step.after) for step in decision.steps if step.name != "placement"]


def chosen(decision: Decision) -> list[str]:
    return [selections[0].host for selections in decision.selections]


@pytest.mark.parametrize("spec", [request(hints={"rack": "r1"}), request(extra_specs={"acme:rack": "r1"})])
def test_a_filter_by_dotted_path_takes_its_place_in_the_chain(spec: RequestSpec) -> None:
    hosts = [*four(), record(5, aggregates=RACKS[0], memory_mb=1024, inventories={})]
    decision = decision_of(spec, hosts, enabled_filters=["ComputeFilter", f"{HERE}.RackFilter", "RamFilter"])
    assert steps(decision) == [("ComputeFilter", 4, 4), ("RackFilter", 4, 2), ("RamFilter", 2, 2)]
    assert [lost.reason for lost in decision.steps[2].lost] == ["RackFilter rejected the host"] * 2
    assert chosen(decision) == ["host1"]


def test_a_filter_by_available_filters_is_enabled_by_its_name() -> None:
    decision = decision_of(
        request(hints={"rack": "r2"}),
        four(),
        available_filters=["nova.scheduler.filters.all_filters", f"{HERE}.RackFilter"],
        enabled_filters=["RackFilter", "RamFilter"],
    )
    assert steps(decision) == [("RackFilter", 4, 1), ("RamFilter", 1, 1)]


def test_only_available_filters_can_be_enabled() -> None:
    with pytest.raises(errors.InvalidConfiguration, match="unknown name 'DiskFilter'; known are RackFilter, RamFilter"):
        decision_of(
            request(),
            four(),
            available_filters=[f"{HERE}.RackFilter", "nova.scheduler.filters.ram_filter.RamFilter"],
            enabled_filters=["DiskFilter"],
        )


def test_a_filter_that_looks_at_all_hosts_together() -> None:
    hosts = [record(n, instances=tuple(f"i{n}{k}" for k in range(n)), num_instances=n) for n in (4, 3, 2, 1)]
    decision = decision_of(request(), hosts, enabled_filters=[f"{HERE}.QuietHalfFilter"])
    assert steps(decision) == [("QuietHalfFilter", 4, 2)]
    assert sorted(lost.host for lost in decision.steps[1].lost) == ["host3", "host4"]


def test_what_a_filter_writes_into_limits_reaches_the_claim() -> None:
    hosts = four(stats={"bandwidth": "7"})
    decision = decision_of(request(), hosts, enabled_filters=["RamFilter", f"{HERE}.ReservedRamFilter", "CoreFilter"])
    limits = decision.selections[0][0].limits
    assert (limits.memory_mb, limits.vcpu, limits.other) == (28672.0, 64.0, {"acme_bandwidth": "7"})


def test_a_filter_that_need_not_be_asked_again_for_each_instance() -> None:
    ReservedRamFilter.asked = 0
    decision = decision_of(request(), four(), count=3, enabled_filters=[f"{HERE}.ReservedRamFilter"])
    assert decision.found == 3
    assert ReservedRamFilter.asked == 4
    assert {s[0].limits.memory_mb for s in decision.selections} == {28672.0}


def test_a_filter_that_runs_on_rebuild() -> None:
    spec = request(hints={"_nova_check_type": ["rebuild"], "rack": "r9"})
    assert steps(decision_of(spec, four(), enabled_filters=[f"{HERE}.RackFilter"])) == [("RackFilter", 4, 0)]


def test_a_filter_that_does_not_run_on_rebuild() -> None:
    small = four(memory_mb=4096)
    path = f"{HERE}.ReservedRamFilter"
    assert decision_of(request(), small, enabled_filters=[path]).found == 0
    assert decision_of(request(hints={"_nova_check_type": "rebuild"}), small, enabled_filters=[path]).found == 1


def test_a_filter_that_raises_fails_the_request_with_its_name() -> None:
    with pytest.raises(errors.MinovaError, match=r"BrokenFilter failed: AttributeError.*power_draw"):
        decision_of(request(), four(), enabled_filters=[f"{HERE}.BrokenFilter"])


def test_a_weigher_by_dotted_path_is_summed_in_its_place() -> None:
    hosts = [*four()[:3], record(4, aggregates=aggregates({"last_node_weight_multiplier": "-1"}))]
    decision = decision_of(request(), hosts, weight_classes=[f"{HERE}.LastNodeWeigher", "RAMWeigher"])
    assert [(weighed_host.host, weighed_host.weights) for weighed_host in decision.weighed] == [
        ("host3", {"LastNodeWeigher": pytest.approx(20 / 3), "RAMWeigher": 1.0}),
        ("host2", {"LastNodeWeigher": pytest.approx(10 / 3), "RAMWeigher": 1.0}),
        ("host1", {"LastNodeWeigher": 0.0, "RAMWeigher": 1.0}),
        ("host4", {"LastNodeWeigher": -1.0, "RAMWeigher": 1.0}),
    ]


LOADS = """
import minova.conf
from minova.scheduler.extensions import load_filters, load_weighers
conf = minova.conf.new()
conf([], default_config_files=[], default_config_dirs=[])
conf.set_override("enabled_filters", ["RamFilter", "AcmeRack", "DiskFilter"], group="filter_scheduler")
print([one.name for one in load_filters(conf)])
print([one.name for one in load_weighers(conf)][-1:])
"""


def test_an_installed_package_is_found_by_its_entry_points(tmp_path: Path) -> None:
    facts = tmp_path / "acme_scheduler-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-scheduler\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        f"[minova.scheduler.filters]\nAcmeRack = {HERE}:RackFilter\n"
        f"[minova.scheduler.weights]\nLastNodeWeigher = {HERE}:LastNodeWeigher\n"
    )
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[4])])
    result = subprocess.run(
        [sys.executable, "-c", LOADS],
        env={**os.environ, "PYTHONPATH": paths, "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.splitlines() == ["['RamFilter', 'RackFilter', 'DiskFilter']", "['LastNodeWeigher']"]
