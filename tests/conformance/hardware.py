"""Random NUMA and PCI cases, answered by Nova's own code and by minova's. They must agree.

    python -m tests.conformance.hardware --nova PATH/TO/NOVA/bin/python [--cases 20000] [--seed 1]

PATH/TO/NOVA is an environment with Nova 34. Prints each difference and what was compared; exits 1 if there was one.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from minova.errors import BadRequest
from minova.hardware import errors, pci_alias, pci_pools
from minova.hardware.numa_constraints import numa_constraints
from minova.hardware.numa_fit import NoFit, PciNeeds, fit_topology
from minova.hardware.numa_usage import with_instance
from minova.objects.catalogue.flavor import Flavor
from minova.objects.hosts.numa import InstanceNUMATopology, NUMACell, NUMATopology, NUMATopologyLimits
from minova.objects.hosts.pci import InstancePCIRequest, PciDevicePool
from tests.conformance.hardware_cases import Case, case

NOVA_SIDE = Path(__file__).with_name("nova") / "hardware.py"


def host_of(one: Case) -> NUMATopology:
    return msgspec.convert({"cells": one["host"]}, NUMATopology)


def pci_of(one: Case) -> PciNeeds:
    return PciNeeds(
        pools=msgspec.convert(one["pools"], tuple[PciDevicePool, ...]),
        requests=msgspec.convert(one["requests"], tuple[InstancePCIRequest, ...]),
    )


def topology_json(guest: InstanceNUMATopology | None) -> list[Case] | None:
    if guest is None:
        return None
    return [
        {
            "id": cell.id,
            "cpuset": sorted(cell.cpuset),
            "pcpuset": sorted(cell.pcpuset),
            "memory": cell.memory,
            "pagesize": cell.pagesize,
            "cpu_policy": cell.cpu_policy,
            "cpu_thread_policy": cell.cpu_thread_policy,
            "pinning": [list(pair) for pair in cell.cpu_pinning],
            "reserved": sorted(cell.cpuset_reserved or ()),
        }
        for cell in guest.cells
    ]


def answer_fit(one: Case) -> Case:
    host, pci = host_of(one), pci_of(one)
    answer = fit_topology(
        host,
        msgspec.convert(one["wanted"], InstanceNUMATopology),
        limits=msgspec.convert(one["limits"], NUMATopologyLimits | None),
        pci=pci,
        packing=one["packing"],
    )
    if isinstance(answer, NoFit):
        return {"fit": None, "reason": answer.reason}
    after = with_instance(host, answer)
    pools = pci_pools.consumed(pci.pools, pci.requests, pci_pools.cells_of(host, answer))
    return {
        "fit": topology_json(answer),
        "pools": sorted([pool.count, str(pool.numa_node), pool.product_id] for pool in pools),
        "usage": usage_json(after),
        "whole_cores": [whole_cores(cell) for cell in after.cells],
        "freed": usage_json(with_instance(after, answer, -1)),
    }


def usage_json(host: NUMATopology) -> list[Any]:
    return [
        [cell.id, cell.cpu_usage, cell.memory_usage, len(cell.pinned_cpus), [page.used for page in cell.mempages]]
        for cell in host.cells
    ]


def whole_cores(cell: NUMACell) -> int:
    return sum(core <= cell.pcpuset - cell.pinned_cpus for core in cell.siblings)


def answer_constraints(one: Case) -> Case:
    flavor = Flavor(
        flavorid="1",
        name="f",
        vcpus=one["vcpus"],
        memory_mb=one["memory_mb"],
        root_gb=1,
        extra_specs=one["extra_specs"],
    )
    try:
        guest = numa_constraints(flavor, one["image"])
        policy = pci_alias.numa_policy_of(flavor, one["image"])
        requests: tuple[InstancePCIRequest, ...] = ()
        if "pci_passthrough:alias" in flavor.extra_specs:  # as Nova, which reads the option only when it must
            aliases = pci_alias.parse_aliases(one["aliases"], pci_in_placement=one["pci_in_placement"])
            requests = pci_alias.requests_of(flavor, aliases, policy)
    except BadRequest as error:
        return {"error": errors.nova_name(error), "text": str(error)}
    return {
        "cells": topology_json(guest),
        "emulator_threads_policy": guest.emulator_threads_policy if guest is not None else None,
        "requests": [
            [request.count, request.alias_name, request.numa_policy, [[list(pair) for pair in s] for s in request.spec]]
            for request in requests
        ],
    }


def answer_pci(one: Case) -> Case:
    pci = pci_of(one)
    return {"ok": pci_pools.shortage(pci.pools, pci.requests) is None}


ANSWERS: dict[str, Callable[[Case], Case]] = {
    "fit": answer_fit,
    "constraints": answer_constraints,
    "pci": answer_pci,
}


def difference(nova: Case, ours: Case) -> str | None:
    """The first key that differs. Which CPUs are pinned may differ, not how many."""
    if "unusable" in nova:
        nova = {"fit": nova["fit"], "pools": nova["pools"]}
    for key, value in nova.items():
        if key in ("text", "as_it_is"):
            continue
        if counted(value) != counted(ours.get(key)):
            return f"{key}: Nova {value} ours {ours.get(key)}"
    return "ours is an error" if "error" in ours and "error" not in nova else None


def counted(value: Any) -> Any:
    if isinstance(value, list):
        return [counted(item) for item in value]
    if isinstance(value, dict):
        return {key: len(item) if key in ("pinning", "reserved") else counted(item) for key, item in value.items()}
    return value


def outcome(one: Case, nova: Case) -> str:
    if "error" in nova:
        return f"{one['kind']}: {nova['error']}"
    if one["kind"] != "fit":
        return f"{one['kind']}: {nova.get('ok', 'cells' if nova.get('cells') else 'no cells')}"
    kinds = ["fits" if nova["fit"] else "does not fit"]
    if counted(nova["as_it_is"]) != counted(nova["fit"]):
        kinds.append("Nova's own answer is spoilt")
    if "unusable" in nova:
        kinds.append(f"Nova cannot use it ({nova['unusable']})")
    return f"fit: {', '.join(kinds)}"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nova", required=True, help="interpreter of the environment that has Nova in it")
    options.add_argument("--cases", type=int, default=20_000)
    options.add_argument("--seed", type=int, default=1)
    args = options.parse_args()
    random = Random(args.seed)
    outcomes: Counter[str] = Counter()
    differences = 0
    with subprocess.Popen(
        [args.nova, str(NOVA_SIDE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as nova_side:
        assert nova_side.stdin is not None
        assert nova_side.stdout is not None
        for _ in range(args.cases):
            new_case = case(random)
            nova_side.stdin.write(json.dumps(new_case) + "\n")
            nova = json.loads(nova_side.stdout.readline())
            ours = json.loads(json.dumps(ANSWERS[new_case["kind"]](new_case)))
            outcomes[outcome(new_case, nova)] += 1
            differs = difference(nova, ours)
            if differs is not None:
                differences += 1
                print(f"{differs}\n  case {json.dumps(new_case)}\n  Nova {json.dumps(nova)}\n  ours {json.dumps(ours)}")
        nova_side.stdin.close()
    for name, count in sorted(outcomes.items()):
        print(f"{count:7d}  {name}")
    print(f"{differences} differences in {args.cases} cases, seed {args.seed}")
    return int(differences > 0)


if __name__ == "__main__":
    sys.exit(main())
