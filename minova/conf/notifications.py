"""Nova's group [notifications]. Where they are sent is for oslo.messaging: [oslo_messaging_notifications] driver."""

from oslo_config import cfg

GROUP = "notifications"

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "notify_on_state_change",
        choices=["vm_state", "vm_and_task_state"],
        deprecated_group="DEFAULT",
        help="Send compute.instance.update when the vm_state of an instance changes, or its task_state too; unset: never.",
    ),
    cfg.StrOpt(
        "notification_format",
        default="unversioned",
        choices=["unversioned", "versioned", "both"],
        deprecated_group="DEFAULT",
        help="Which of Nova's two kinds of notifications are sent.",
    ),
    cfg.ListOpt(
        "versioned_notifications_topics",
        default=["versioned_notifications"],
        help="Topics of versioned notifications; unversioned ones go to [oslo_messaging_notifications] topics.",
    ),
    cfg.IntOpt(
        "queue_size",
        default=10000,
        min=1,
        help="Notifications kept by one process while the broker does not take them; what comes then is dropped.",
    ),
]
