"""What of Nova's objects is in an answer."""

from nova import objects


def limits_of(state):
    return objects.NUMATopologyLimits(
        cpu_allocation_ratio=state.cpu_allocation_ratio, ram_allocation_ratio=state.ram_allocation_ratio
    )


def usage_json(cell):
    return {
        "id": cell.id,
        "cpu_usage": cell.cpu_usage,
        "memory_usage": cell.memory_usage,
        "pinned_cpus": sorted(cell.pinned_cpus),
        "mempages": [{"size_kb": page.size_kb, "total": page.total, "used": page.used} for page in cell.mempages],
    }


def topology_json(topology):
    if not topology:
        return None
    return {
        "emulator_threads_policy": topology.emulator_threads_policy,
        "cells": [
            {
                "id": cell.id,
                "cpuset": sorted(cell.cpuset),
                "pcpuset": sorted(cell.pcpuset),
                "memory": cell.memory,
                "pagesize": cell.pagesize,
                "cpu_policy": cell.cpu_policy,
                "cpu_thread_policy": cell.cpu_thread_policy,
                "cpu_pinning": {str(k): v for k, v in sorted((cell.cpu_pinning or {}).items())},
                "cpuset_reserved": None if cell.cpuset_reserved is None else sorted(cell.cpuset_reserved),
            }
            for cell in topology.cells
        ],
    }
