"""Runs a scenario with the scheduler's own filters, weighers, table and claims. Returns the decisions. Pure.

Hosts are in the scenario's order, each one is a candidate, and the first of the best hosts with equal weight is chosen.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from minova import errors
from minova.compute.accounting.claim_test import HardwareFit, hardware_fit
from minova.hardware.pci_alias import Aliases
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.requests.request_spec import HostLimits, RequestSpec
from minova.scheduler.decide.chain import ChainRun, Rules, Step
from minova.scheduler.decide.decision import best_first, limits_at, with_group_member
from minova.scheduler.decide.preselection import skips_filters
from minova.scheduler.filters import Filter
from minova.scheduler.filters.numa_topology import limits_of
from minova.scheduler.hosts.table import HostTable, Mask, Rows
from minova.scheduler.weights import Floats, Weigher, parts
from minova.simulate.answers import Json, error_text, pools_json, topology_json, usage_json
from minova.simulate.hosts import host_records
from minova.simulate.requests import request_spec
from minova.simulate.scenario import Scenario, ScenarioRequest


class Settings(NamedTuple):
    """The configuration of a scheduler and its computes. `aliases` returns those of [pci] alias, or raises."""

    filters: Sequence[Filter]
    weighers: Sequence[Weigher]
    aliases: Callable[[], Aliases]
    service_down_time: float
    packing: bool


def simulate(scenario: Scenario, settings: Settings) -> Json:
    """Returns the answer to every request. Raises BadRequest, which names the place, if a host of the scenario is not
    possible.
    """
    cloud = SimulatedCloud(scenario, settings)
    return {
        "filters": [host_filter.name for host_filter in settings.filters],
        "weighers": [weigher.name for weigher in settings.weighers],
        "requests": [cloud.answer(described) for described in scenario.requests],
    }


class WeightsByHost(NamedTuple):
    """The values, normalised values and multipliers of each weigher by host, and the sum of each host."""

    by_weigher: Json
    total: Floats


class SimulatedCloud:
    """The hosts of one scenario after the previous requests."""

    def __init__(self, scenario: Scenario, settings: Settings) -> None:
        self._settings = settings
        self._table = HostTable()
        self._table.apply(host_records(scenario, settings.service_down_time))
        self._names = np.array([record.host for record in self._table.records], object)
        self._every_row: Mask = np.ones(len(self._table), bool)
        self._rules = Rules(
            filters=settings.filters,
            weighers=list(settings.weighers),
            host_subset_size=1,
            shuffle_best_same_weighed_hosts=False,
            max_placement_results=0,
            draw=lambda count: 0,
        )
        # By group: the uuids and hosts of servers that joined it.
        self._joined: dict[str, list[tuple[str, str]]] = {}
        # A cache: many hosts are equal, and so are many requests.
        self._fits: dict[Any, dict[Any, HardwareFit]] = {}

    def answer(self, described: ScenarioRequest) -> Json:
        try:
            spec = request_spec(described, self._settings.aliases)
        except errors.MinovaError as error:
            return {"id": described.id, "error": error_text(error)}
        spec = self._with_group(spec)
        result: Json = {"id": described.id, "error": None, "numa_constraints": topology_json(spec.numa_topology)}
        result.update(self._individual(spec), **self._hardware(spec))
        result.update(chain=[], selected=[], weights={}, order=[], consumed=None)
        run = ChainRun(self._table, self._rules)
        try:
            rows = np.flatnonzero(run.candidates(spec))
            result["selected"] = self._hosts(rows)
            result["weights"], total = self._weights(rows, spec)
        except Exception as error:  # noqa: BLE001  - whatever a filter or weigher raises is the answer
            return {**result, "error": error_text(error), "chain": self._chain(spec, run.steps)}
        best = best_first(total, len(rows))
        result["order"] = list(zip(self._names[rows[best]].tolist(), total[best].tolist(), strict=True))
        result["chain"] = self._chain(spec, run.steps)
        if described.consume and len(best):
            result["consumed"] = self._consume(int(rows[best[0]]), spec)
        return result

    def _hosts(self, chosen: Mask | Rows) -> list[str]:
        return self._names[chosen].tolist()  # type: ignore[no-any-return]

    def _with_group(self, spec: RequestSpec) -> RequestSpec:
        if spec.instance_group is not None:
            for uuid, host in self._joined.get(spec.instance_group.uuid, ()):
                spec = with_group_member(spec, host, uuid)
        return spec

    def _individual(self, spec: RequestSpec) -> Json:
        passed: dict[str, list[str]] = {}
        failed: dict[str, str] = {}
        for host_filter in self._settings.filters:
            try:
                every_row = (
                    host_filter.filter_table(self._table, self._every_row, spec).passed
                    if host_filter.applies_to(spec)
                    else True
                )
                passed[host_filter.name] = self._hosts(self._every_row & every_row)
            except Exception as error:  # noqa: BLE001  - whatever a filter raises is its answer
                failed[host_filter.name] = error_text(error)
        return {"individual": passed, "filter_errors": failed}

    def _chain(self, spec: RequestSpec, steps: Sequence[Step]) -> list[Any]:
        """Returns the hosts that each filter left. As in Nova, filters that do not apply are listed, too. So is the
        first filter if no host is left for it, unless all hosts are ignored.
        """
        preselection = ChainRun(self._table, self._rules._replace(filters=()))
        remaining = preselection.candidates(spec)
        all_ignored = any(step.name == "ignore_hosts" and not step.after.any() for step in preselection.steps)
        answer: list[Any] = []
        filter_steps = iter(steps[len(preselection.steps) :])
        for host_filter in () if all_ignored or skips_filters(spec) else self._settings.filters:
            if remaining.any() and host_filter.applies_to(spec):
                step = next(filter_steps, None)
                if step is None:
                    break
                remaining = step.after
            answer.append([host_filter.name, self._hosts(remaining)])
            if not remaining.any():
                break
        return answer

    def _weights(self, rows: Rows, spec: RequestSpec) -> WeightsByHost:
        """A single host is not weighed."""
        total = np.zeros(len(rows))
        if len(rows) <= 1:
            return WeightsByHost({}, total)
        names = self._hosts(rows)
        weights: Json = {}
        for weigher in self._settings.weighers:
            values, normal, multipliers = parts(weigher, self._table, rows, spec)
            total += normal * multipliers
            of_hosts = [np.broadcast_to(column, len(rows)).tolist() for column in (values, normal, multipliers)]
            by = zip(("raw", "norm", "mult"), of_hosts, strict=True)
            weights[weigher.name] = {part: dict(zip(names, numbers, strict=True)) for part, numbers in by}
        return WeightsByHost(weights, total)

    # -- NUMA, PCI and claims -------------------------------------------------------------------------------------------

    def _hardware(self, spec: RequestSpec) -> Json:
        results: Json = {}
        if spec.numa_topology is None and not spec.pci_requests:
            return results
        memory = self._fits.setdefault((spec.numa_topology, spec.pci_requests), {})
        fits = {}
        for row, (name, kind) in enumerate(zip(self._names, self._kinds(), strict=True)):
            if kind not in memory:
                memory[kind] = self._fit(row, spec)
            fits[name] = memory[kind]
        if spec.numa_topology is not None:
            results["numa_fit"] = {name: topology_json(fit.numa_topology) for name, fit in fits.items()}
        if spec.pci_requests:
            results["pci_ok"] = {name: not _lacks_devices(fit) for name, fit in fits.items()}
        results["claims"] = {name: _claim_result(fit) for name, fit in fits.items()}
        return results

    def _kinds(self) -> Iterable[tuple[Any, ...]]:
        """Yields a key for each host. A guest fits in the same way on hosts with equal keys."""
        table = self._table
        cells, pools = (table.class_column(name).ids for name in ("numa_topology", "pci_pools"))
        columns = (cells, pools, table.cpu_allocation_ratio, table.ram_allocation_ratio)
        return zip(*(column.tolist() for column in columns), strict=True)

    def _fit(self, row: int, spec: RequestSpec) -> HardwareFit:
        """Computes the fit as a claim of the host would, without limits of memory, disk and vcpus."""
        host = self._table.host(row)
        node = ComputeNode(
            uuid=host.uuid,
            host=host.host,
            hypervisor_hostname=host.nodename,
            numa_topology=host.numa_topology,
            pci_device_pools=host.pci_pools,
        )
        limits = HostLimits(numa_topology=limits_of(host))
        return hardware_fit(node, spec.numa_topology, spec.pci_requests, limits, packing=self._settings.packing)

    def _consume(self, row: int, spec: RequestSpec) -> Json:
        host, uuid = self._table.host(row), str(spec.instance_uuid)
        limits = limits_at(host, spec, self._rules).numa_topology
        self._table.consume(row, spec, uuid, limits=limits, packing=self._settings.packing)
        if spec.instance_group is not None:
            self._joined.setdefault(spec.instance_group.uuid, []).append((uuid, host.host))
        return {
            "host": host.host,
            "free_ram_mb": host.free_ram_mb,
            "free_disk_mb": host.free_disk_mb,
            "vcpus_used": host.vcpus_used,
            "num_instances": host.num_instances,
            "num_io_ops": host.num_io_ops,
            "numa": usage_json(host.numa_topology),
            "pci_pools": pools_json(host.pci_pools),
        }


def _lacks_devices(fit: HardwareFit) -> bool:
    return any(misfit.kind == "pci" for misfit in fit.misfits)


def _claim_result(fit: HardwareFit) -> str:
    return f"Insufficient compute resources: {'; '.join(fit.reasons)}." if fit.reasons else "ok"
