"""What Nova's own NUMA and PCI code answers to single cases: one JSON object per line in, one out.

Runs with the interpreter of an environment that has Nova 34 in it. `fit` is answered twice: as Nova has it, and with the
guest's cells restored before each permutation, which undoes Nova's defects (it changes them while it permutes, and then
remembers verdicts under changed ids).
"""

import copy
import itertools
import json
import logging
import sys
import types
import warnings

warnings.simplefilter("ignore")

import nova.conf  # noqa: E402
from nova import objects  # noqa: E402
from nova.pci import request as pci_request  # noqa: E402
from nova.pci import stats as pci_stats  # noqa: E402
from nova.virt import hardware  # noqa: E402

CONF = nova.conf.CONF


def topology_of(cells):
    return objects.NUMATopology(
        cells=[
            objects.NUMACell(
                id=cell["id"],
                cpuset=set(cell["cpuset"]),
                pcpuset=set(cell["pcpuset"]),
                memory=cell["memory"],
                cpu_usage=cell["cpu_usage"],
                memory_usage=cell["memory_usage"],
                pinned_cpus=set(cell["pinned_cpus"]),
                siblings=[set(core) for core in cell["siblings"]],
                socket=cell["socket"],
                mempages=[objects.NUMAPagesTopology(**pages) for pages in cell["mempages"]],
            )
            for cell in cells
        ]
    )


def guest_of(wanted):
    cells = [
        objects.InstanceNUMACell(
            id=cell["id"],
            cpuset=set(cell["cpuset"]),
            pcpuset=set(cell["pcpuset"]),
            memory=cell["memory"],
            pagesize=cell["pagesize"],
            cpu_policy=cell["cpu_policy"],
            cpu_thread_policy=cell["cpu_thread_policy"],
        )
        for cell in wanted["cells"]
    ]
    return objects.InstanceNUMATopology(cells=cells, emulator_threads_policy=wanted["emulator_threads_policy"])


def topology_json(guest):
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
            "pinning": sorted((cell.cpu_pinning or {}).items()),
            "reserved": sorted(cell.cpuset_reserved or ()),
        }
        for cell in guest.cells
    ]


def stats_of(case, host):
    pools = objects.PciDevicePoolList(
        objects=[
            objects.PciDevicePool(
                vendor_id=pool["vendor_id"],
                product_id=pool["product_id"],
                numa_node=pool["numa_node"],
                count=pool["count"],
                tags={"dev_type": pool["dev_type"], **dict(pool["tags"])},
            )
            for pool in case["pools"]
        ]
    )
    return pci_stats.PciDeviceStats(host, pools)


def requests_of(case):
    return [
        objects.InstancePCIRequest(
            count=request["count"], spec=[dict(spec) for spec in request["spec"]], numa_policy=request["numa_policy"]
        )
        for request in case["requests"]
    ]


def restoring(guest):
    """Permutations before each of which the guest's cells are as they were, under ids not seen before."""
    first = copy.deepcopy(guest.cells)
    number = itertools.count(1)

    def permutations(cells, length):
        for order in itertools.permutations(cells, length):
            base = 1000 * next(number)
            for index, cell in enumerate(guest.cells):
                cell.id = base + index
                cell.pagesize = first[index].pagesize
                cell.cpu_pinning_raw = None
                cell.cpuset_reserved = None
            yield order

    return types.SimpleNamespace(permutations=permutations, chain=itertools.chain)


def fitted(case, *, restore):
    host, guest = topology_of(case["host"]), guest_of(case["wanted"])
    limits = objects.NUMATopologyLimits(**case["limits"]) if case["limits"] else None
    hardware.itertools = restoring(guest) if restore else itertools
    try:
        topology = hardware.numa_fit_instance_to_host(
            host,
            guest,
            None,
            limits=limits,
            pci_requests=requests_of(case),
            pci_stats=stats_of(case, host),
        )
    finally:
        hardware.itertools = itertools
    return host, topology


def answer_fit(case):
    CONF.set_override("packing_host_numa_cells_allocation_strategy", case["packing"], "compute")
    host, topology = fitted(case, restore=True)
    answer = {"fit": topology_json(topology), "as_it_is": topology_json(fitted(case, restore=False)[1])}
    if topology is None:
        return answer
    stats = stats_of(case, host)
    stats.apply_requests(requests_of(case), None, topology.cells)
    answer["pools"] = sorted([pool["count"], str(pool["numa_node"]), pool["product_id"]] for pool in stats.pools)
    try:
        after = hardware.numa_usage_from_instance_numa(host, topology)
    except Exception as error:  # noqa: BLE001  # its kind is the answer
        return answer | {"unusable": type(error).__name__}
    answer["usage"] = usage_json(after)
    answer["whole_cores"] = [whole_cores(cell) for cell in after.cells]
    answer["freed"] = usage_json(hardware.numa_usage_from_instance_numa(after, topology, free=True))
    return answer


def usage_json(host):
    return [
        [cell.id, cell.cpu_usage, cell.memory_usage, len(cell.pinned_cpus), [page.used for page in cell.mempages]]
        for cell in host.cells
    ]


def whole_cores(cell):
    return sum(len(core) == len(free) for core, free in zip(cell.siblings, cell.free_siblings, strict=True))


def answer_constraints(case):
    flavor = objects.Flavor(
        name="f", vcpus=case["vcpus"], memory_mb=case["memory_mb"], root_gb=1, extra_specs=case["extra_specs"]
    )
    CONF.set_override("alias", case["aliases"], "pci")
    CONF.set_override("pci_in_placement", case["pci_in_placement"], "filter_scheduler")
    pci_request.get_alias_from_config.cache_clear()
    try:
        image = objects.ImageMeta.from_dict({"name": "i", "properties": dict(case["image"])})
        guest = hardware.numa_get_constraints(flavor, image)
        policy = hardware.get_pci_numa_policy_constraint(flavor, image)
        requests = pci_request.get_pci_requests_from_flavor(flavor, affinity_policy=policy).requests
    except Exception as error:  # noqa: BLE001  # its kind is the answer
        return {"error": type(error).__name__, "text": str(error)}
    return {
        "cells": topology_json(guest),
        "emulator_threads_policy": guest.emulator_threads_policy if guest else None,
        "requests": [
            [request.count, request.alias_name, request.numa_policy, [sorted(spec.items()) for spec in request.spec]]
            for request in requests
        ],
    }


def answer_pci(case):
    stats = pci_stats.PciDeviceStats(None, stats_of(case, None).to_device_pools_obj())
    return {"ok": stats.support_requests(requests_of(case), None)}


ANSWERS = {"fit": answer_fit, "constraints": answer_constraints, "pci": answer_pci}


def main():
    logging.disable(logging.CRITICAL)
    objects.register_all()
    CONF([], project="nova", default_config_files=[])
    for line in sys.stdin:
        case = json.loads(line)
        print(json.dumps(ANSWERS[case["kind"]](case)), flush=True)


if __name__ == "__main__":
    main()
