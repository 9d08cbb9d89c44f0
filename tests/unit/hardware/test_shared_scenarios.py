"""NUMA and PCI as Nova itself answered them in the shared scenarios, on hosts that no earlier request has changed."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minova.errors import BadRequest
from minova.hardware.errors import nova_name
from minova.hardware.numa_fit import NoFit, PciNeeds, fit_topology
from minova.hardware.pci_alias import parse_aliases
from minova.hardware.pci_pools import shortage
from minova.objects.hosts.numa import NUMATopologyLimits
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.hosts.record import HostRecord
from minova.simulate.hosts import host_records
from minova.simulate.requests import request_spec
from minova.simulate.scenario import Scenario, read

DATA = Path(__file__).parents[2] / "conformance" / "data"
NAMES = sorted(path.name.removeprefix("scenario-").removesuffix(".json.gz") for path in DATA.glob("scenario-*"))
PACKING = "compute.packing_host_numa_cells_allocation_strategy"


def test_they_are_all_there() -> None:
    assert len(NAMES) == 24


@pytest.mark.parametrize("name", NAMES)
def test_novas_answers(name: str) -> None:
    scenario = read(gzip.decompress((DATA / f"scenario-{name}.json.gz").read_bytes()))
    right = json.loads(gzip.decompress((DATA / f"answer-{name}.json.gz").read_bytes()))["requests"]
    untouched = {record.host: record for record in host_records(scenario, 60).values()}
    for spec, answer in zip(specs(scenario), right, strict=True):
        if isinstance(spec, str):
            assert (answer["error"] or "").partition(":")[0] == spec
        elif not answer["error"]:
            assert requested_hardware(spec) == asked_of(answer.get("numa_constraints"))
            packing = bool(scenario.config.get(PACKING))
            fits = of_hosts(untouched, answer.get("numa_fit"))
            assert {host: fit(untouched[host], spec, packing) for host in fits} == {
                host: fit_of(cells) for host, cells in fits.items()
            }
            devices = of_hosts(untouched, answer.get("pci_ok"))
            assert {host: shortage(untouched[host].pci_pools, spec.pci_requests) is None for host in devices} == devices
        untouched.pop((answer.get("consumed") or {}).get("host", ""), None)


def of_hosts(hosts: dict[str, HostRecord], answers: dict[str, Any] | None) -> dict[str, Any]:
    return {host: answer for host, answer in (answers or {}).items() if host in hosts}


def specs(scenario: Scenario) -> Iterator[RequestSpec | str]:
    """What each request asks for, or the kind of its error."""
    in_placement = bool(scenario.config.get("filter_scheduler.pci_in_placement"))
    aliases = parse_aliases(scenario.config.get("pci.alias", ()), pci_in_placement=in_placement)
    for request in scenario.requests:
        try:
            yield request_spec(request, lambda: aliases)
        except BadRequest as error:
            yield nova_name(error)


def requested_hardware(spec: RequestSpec) -> Any:
    topology = spec.numa_topology
    return topology and [
        (sorted(cell.cpuset), sorted(cell.pcpuset), cell.memory, cell.pagesize) for cell in topology.cells
    ]


def asked_of(answer: Any) -> Any:
    return answer and [(cell["cpuset"], cell["pcpuset"], cell["memory"], cell["pagesize"]) for cell in answer["cells"]]


def fit(host: HostRecord, spec: RequestSpec, packing: bool) -> Any:
    """(host cell, page size, pinned CPUs, reserved CPUs) of each guest cell; which CPUs they are may differ."""
    if host.numa_topology is None or spec.numa_topology is None:
        return None
    limits = NUMATopologyLimits(
        cpu_allocation_ratio=host.cpu_allocation_ratio, ram_allocation_ratio=host.ram_allocation_ratio
    )
    pci = PciNeeds(pools=host.pci_pools, requests=spec.pci_requests)
    answer = fit_topology(host.numa_topology, spec.numa_topology, limits=limits, pci=pci, packing=packing)
    if isinstance(answer, NoFit):
        return None
    return [(cell.id, cell.pagesize, len(cell.cpu_pinning), len(cell.cpuset_reserved or ())) for cell in answer.cells]


def fit_of(answer: Any) -> Any:
    cells = answer["cells"] if isinstance(answer, dict) else answer
    return cells and [
        (cell["id"], cell["pagesize"], len(cell["cpu_pinning"] or ()), len(cell["cpuset_reserved"] or ()))
        for cell in cells
    ]
