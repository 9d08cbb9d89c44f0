"""Options of minova-conductor."""

from oslo_config import cfg

GROUP = "conductor"

OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        "workers",
        default=16,
        min=1,
        help="Requests that one conductor process puts to schedulers at the same time. Deletions, reports of builds and "
        "messages to computes have threads of their own, and never wait behind these.",
    ),
    cfg.IntOpt(
        "worker_lease",
        default=9,
        min=2,
        help="Seconds without a sign of life after which another conductor takes over the tasks of this one. It is "
        "renewed 18 times within that time; a conductor that stands still for longer loses its tasks.",
    ),
    cfg.IntOpt(
        "task_interval",
        default=1,
        min=1,
        help="Seconds between looks for tasks that are due: to be scheduled again, to be deleted again, or given up.",
    ),
    cfg.IntOpt(
        "build_timeout",
        default=1800,
        min=10,
        help="Seconds that one attempt to build an instance may take on a host before the next alternate is tried. "
        "Scheduling has a deadline of its own: schedule_timeout.",
    ),
    cfg.IntOpt(
        "schedule_timeout",
        default=1800,
        min=120,
        help="Seconds in which a scheduler must have answered for a new instance, however often it is asked; after that the "
        "instance is in ERROR. A lost question is asked again, so keep this much longer than an outage of the schedulers may last.",
    ),
    cfg.IntOpt(
        "max_concurrent_dry_runs",
        default=4,
        min=1,
        help="Dry runs and questions for capacity that one conductor process puts to schedulers at the same time. Each holds "
        "one of executor_thread_pool_size threads; more are answered 503 at once. One project may use all; further projects get their "
        "share, up to twice as many in all.",
    ),
    cfg.IntOpt(
        "delete_timeout",
        default=600,
        min=10,
        help="Seconds that a host may take to remove an instance. It is asked again with growing pauses; then the instance goes to "
        "ERROR with the reason, and its delete may be asked for again.",
    ),
    cfg.IntOpt(
        "action_timeout",
        default=600,
        min=10,
        help="Seconds without a sign of life of a server action, such as a stop, after which its host is asked to cancel it. An action "
        "that has not begun there fails, and the instance is as before. One that has begun gives signs of life, however long it takes, "
        "and continues. Computes read the option, too: they give signs more often than that, and wait that long for a hypervisor that "
        "is away.",
    ),
    cfg.IntOpt(
        "diagnosis_retention",
        default=604800,
        min=0,
        help="Seconds that the record of a scheduling decision is kept; 0 keeps it for ever.",
    ),
    cfg.IntOpt(
        "deleted_retention",
        default=2592000,
        min=0,
        help="Seconds that deleted instances are kept before they are purged; 0 keeps them for ever.",
    ),
    cfg.IntOpt(
        "history_retention",
        default=31536000,
        min=0,
        help="Seconds that migrations and actions that have ended, and faults other than the newest one, are kept of an "
        "instance that is not purged itself; 0 keeps them as long as the instance.",
    ),
    cfg.IntOpt(
        "host_change_retention",
        default=600,
        min=300,
        help="Seconds that rows of the change feed are kept from which schedulers refresh their host tables. A scheduler that "
        "has not read for longer reads every host once.",
    ),
    cfg.IntOpt(
        "max_automatic_removals",
        default=25,
        min=0,
        mutable=True,
        help="Most guests that one audit of a host removes because their servers are deleted or have left it. If there are more, it removes "
        "none, since the database may be wrong: minova-manage unexpected remove confirms each, or raise this option. 0: any number.",
    ),
    cfg.IntOpt(
        "purge_batch_size",
        default=1000,
        min=1,
        max=10000,
        help="Rows, or instances with all their rows, that one transaction of a purge removes.",
    ),
    cfg.FloatOpt(
        "purge_pause",
        default=0.1,
        min=0,
        help="Seconds between two transactions of a purge, so that other work gets its turn.",
    ),
    cfg.IntOpt(
        "purged_retention",
        default=31536000,
        min=0,
        help="Seconds that the UUIDs of purged instances are kept: the proof by which a host that was away for long removes their "
        "domains. 0 keeps them for ever.",
    ),
    cfg.IntOpt(
        "placement_audit_interval",
        default=3600,
        min=0,
        help="Seconds between audits of Placement, which look for allocations, counts and providers that do not agree with "
        "the instances, and change nothing: see minova-manage placement audit. 0 never looks.",
    ),
]
