"""Options of a host's NUMA cells, in Nova's group [compute]."""

from oslo_config import cfg

GROUP = "compute"

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "packing_host_numa_cells_allocation_strategy",
        default=False,
        help="Place a guest's NUMA cells on the host's most used ones; else on those with the most room (the scheduler "
        "and the computes should agree).",
    ),
]
