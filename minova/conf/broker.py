"""Group [broker]: users of the services at the message broker."""

from oslo_config import cfg

GROUP = "broker"

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "per_host_users",
        default=False,
        help="Every service of every host has a user of its own at RabbitMQ, named SERVICE.HOST, such as compute.hv1 (minova-manage broker "
        "permissions makes them). Messages of other senders are refused, and those of a compute that speaks for another host. Set it on "
        "every host once transport_url has these users everywhere.",
    ),
]
