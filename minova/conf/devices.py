"""Options of mediated devices, in Nova's group [devices]."""

from oslo_config import cfg

GROUP = "devices"

OPTS: list[cfg.Opt] = [
    cfg.ListOpt(
        "enabled_mdev_types",
        default=[],
        help="Type of mediated devices, such as nvidia-222, that this host offers to Placement as VGPU. Of several only "
        "the first is offered, as in Nova where no group says which card is for which type.",
    ),
]
