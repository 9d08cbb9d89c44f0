"""Group [scheduler]: how requests are scheduled, whatever the driver."""

from oslo_config import cfg

GROUP = "scheduler"

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "driver",
        default="filter_scheduler",
        deprecated_name="scheduler_driver",
        deprecated_group="DEFAULT",
        help="Entry point of the scheduler driver, or dotted path of a class with Nova's select_destinations.",
    ),
    cfg.IntOpt(
        "max_attempts",
        default=3,
        min=1,
        help="Hosts on which a build is tried before the instance goes to ERROR.",
    ),
    cfg.IntOpt(
        "max_placement_results",
        default=1000,
        min=1,
        help="Most allocation candidates that are looked at.",
    ),
    cfg.StrOpt(
        "default_availability_zone",
        default="nova",
        deprecated_group="DEFAULT",
        help="Zone of hosts that are in no aggregate with a zone of its own.",
    ),
]
