"""Metrics of a host's CPUs, in Nova's names and shape."""

from datetime import UTC, datetime
from typing import Any

import pytest

from minova import errors
from minova.compute.tracker.monitors import NONE, metrics_of
from minova.objects.hosts.cpu_times import CpuTimes
from tests.fakes.computes import NODE, Compute

AT = datetime(2026, 11, 21, 12, 30, 1, 500000, tzinfo=UTC)
SHARES = ("user", "kernel", "idle", "iowait")


def times(user: int, kernel: int, idle: int, iowait: int) -> CpuTimes:
    return CpuTimes(user=user, kernel=kernel, idle=idle, iowait=iowait, frequency=2400)


def values(metrics: Any) -> dict[str, float]:
    return {metric["name"]: metric["value"] for metric in metrics}


def test_each_metric_has_novas_fields() -> None:
    first = metrics_of(times(1, 2, 3, 4), NONE, AT, "libvirt")[0]
    assert first == {
        "name": "cpu.frequency",
        "value": 2400,
        "timestamp": "2026-11-21T12:30:01.500000",
        "source": "libvirt",
    }


@pytest.mark.parametrize(
    ("before", "now", "percents", "of_all"),
    [
        (NONE, times(10, 20, 60, 10), (0.10, 0.20, 0.60, 0.10), 0.40),
        (times(10, 20, 60, 10), times(20, 20, 90, 20), (0.20, 0.0, 0.60, 0.20), 0.40),
        (times(0, 0, 0, 0), times(1, 1, 1, 0), (0.33, 0.33, 0.33, 0.0), 0.66),
        (NONE, times(1, 0, 0, 0), (1.0, 0.0, 0.0, 0.0), 1.0),
        (times(5, 5, 5, 5), times(5, 5, 5, 5), None, None),
        (times(50, 50, 50, 50), times(1, 1, 1, 1), None, None),
    ],
)
def test_percentages_are_of_the_time_since_the_audit_before(
    before: CpuTimes, now: CpuTimes, percents: tuple[float, ...] | None, of_all: float | None
) -> None:
    values_by_name = values(metrics_of(now, before, AT, "fake"))
    assert [values_by_name[f"cpu.{kind}.time"] for kind in SHARES] == [getattr(now, kind) for kind in SHARES]
    expected = (*percents, of_all) if percents is not None else (None,) * 5
    assert (
        tuple(values_by_name.get(f"cpu.{kind}percent") for kind in ("user.", "kernel.", "idle.", "iowait.", ""))
        == expected
    )


def test_off_unless_it_is_asked_for() -> None:
    compute = Compute().start()
    assert compute.row.metrics == ()
    assert "cpu_times" not in compute.hypervisor.calls


def test_they_are_in_the_row_with_each_audit_and_change_it_between_audits_never() -> None:
    compute = Compute(compute_monitors=["cpu.virt_driver"])
    compute.hypervisor.cpus = times(10, 20, 60, 10)
    compute.start()
    assert values(compute.row.metrics)["cpu.percent"] == 0.40
    compute.hypervisor.cpus = times(100, 20, 60, 20)
    generation = compute.row.generation
    compute.manager.report_changes()
    assert compute.row.generation == generation
    compute.manager.update_available_resource()
    assert values(compute.row.metrics)["cpu.user.percent"] == 0.90
    assert compute.hypervisor.calls.count("cpu_times") == 2


@pytest.mark.parametrize("error", [None, errors.HypervisorUnavailable("libvirt does not answer")])
def test_an_audit_does_not_fail_for_a_monitor(error: Exception | None, caplog: pytest.LogCaptureFixture) -> None:
    compute = Compute(compute_monitors=["cpu.virt_driver"])
    if error is not None:

        def fail(operation: str) -> None:
            if operation == "cpu_times":
                raise error

        compute.hypervisor.on_call = fail
    compute.start()
    assert (compute.row.hypervisor_hostname, compute.row.metrics) == (NODE, ())
    assert ("Monitor cpu.virt_driver of node node-1: libvirt does not answer" in caplog.text) == (error is not None)


def test_a_monitor_that_there_is_not() -> None:
    with pytest.raises(errors.InvalidConfiguration, match=r"compute_monitors: there is no monitor 'numa_mem_bw.x'"):
        Compute(compute_monitors=["numa_mem_bw.x"])
