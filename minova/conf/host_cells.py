"""Options of a host's CPUs and NUMA cells, in Nova's group [compute]."""

from oslo_config import cfg

GROUP = "compute"

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "cpu_shared_set",
        help="CPUs for guests whose CPUs are not pinned, and for emulator threads of policy share, such as 0-3,^2,8.",
    ),
    cfg.StrOpt(
        "cpu_dedicated_set",
        help="CPUs for pinned guests, offered to Placement as PCPU. Without it and cpu_shared_set they run on all CPUs, as VCPU.",
    ),
    cfg.BoolOpt(
        "packing_host_numa_cells_allocation_strategy",
        default=False,
        help="Place a guest's NUMA cells on the host's most used ones; else on those with the most room (the scheduler "
        "and the computes should agree).",
    ),
]
