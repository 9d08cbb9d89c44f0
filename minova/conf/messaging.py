"""The few of oslo.messaging's options that every operator sets, for the sample file only: oslo.messaging registers them.

All of its options: https://docs.openstack.org/oslo.messaging/latest/configuration/opts.html
"""

from oslo_config import cfg

SAMPLE: dict[str, list[cfg.Opt]] = {
    "DEFAULT": [
        cfg.StrOpt(
            "transport_url",
            default="rabbit://",
            secret=True,
            help="The message broker: rabbit://USER:PASSWORD@HOST:5672/VHOST, several as USER:PASSWORD@HOST,USER:...",
        ),
        cfg.IntOpt(
            "executor_thread_pool_size", default=16, min=1, help="Messages that one service works on at the same time."
        ),
    ],
    "oslo_messaging_notifications": [
        cfg.MultiStrOpt(
            "driver",
            default=[],
            help="How notifications are sent: messagingv2, messaging, log, routing, test, noop; unset: they are not.",
        ),
        cfg.StrOpt("transport_url", secret=True, help="Another broker for notifications; unset: transport_url."),
        cfg.ListOpt("topics", default=["notifications"], help="Topics that they are sent to."),
    ],
    "oslo_messaging_rabbit": [
        cfg.BoolOpt(
            "rabbit_quorum_queue",
            default=False,
            help="Replicated quorum queues; the same value on every host. Needs a RabbitMQ cluster of 3.8 or newer.",
        ),
        cfg.BoolOpt(
            "ssl",
            default=False,
            help="Connect to the broker over TLS. Its certificate is checked, and must bear the host's name as transport_url has it.",
        ),
        cfg.StrOpt(
            "ssl_ca_file",
            default="",
            help="Authorities (PEM) that the broker's certificate may be of; unset: those of the system.",
        ),
        cfg.StrOpt("ssl_cert_file", default="", help="Certificate (PEM) to show a broker that asks for one."),
        cfg.StrOpt("ssl_key_file", default="", help="Key (PEM) of ssl_cert_file."),
    ],
}
