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
        help=(
            "Most allocation candidates that are looked at together. Where none of them passes the filters, the next so "
            "many are looked at. 0 or less: all of them together."
        ),
    ),
    cfg.StrOpt(
        "default_availability_zone",
        default="nova",
        deprecated_group="DEFAULT",
        help="Zone of hosts that are in no aggregate with a zone of its own.",
    ),
    cfg.IntOpt(
        "periodic_task_interval",
        default=60,
        deprecated_name="scheduler_driver_task_period",
        deprecated_group="DEFAULT",
        help="Seconds between the refreshes of caching_scheduler; 0 means 60, negative switches them off.",
    ),
    cfg.StrOpt(
        "scheduler_json_config_location",
        default="",
        deprecated_group="DEFAULT",
        help="JSON file, an object, that filters read as config_options; read again whenever it changes.",
    ),
    cfg.BoolOpt(
        "limit_tenants_to_placement_aggregate",
        default=False,
        help="Keep a project's instances to the aggregates that name it in filter_tenant_id or a key that begins so.",
    ),
    cfg.BoolOpt(
        "placement_aggregate_required_for_tenants",
        default=False,
        help="With limit_tenants_to_placement_aggregate: a project that no aggregate names gets no host at all.",
    ),
    cfg.BoolOpt(
        "query_placement_for_image_type_support",
        default=False,
        help="Only hosts with the trait of the image's disk format, such as COMPUTE_IMAGE_TYPE_QCOW2.",
    ),
    cfg.BoolOpt(
        "enable_isolated_aggregate_filtering",
        default=False,
        help="Keep instances out of aggregates with trait:X=required unless their flavor or image requires X.",
    ),
    cfg.BoolOpt(
        "image_metadata_prefilter",
        default=False,
        help="Only hosts with the traits that the image's properties for buses and models stand for.",
    ),
]
