"""Group [upgrade_levels]: which version of each service's contract is sent while releases of different age run."""

from oslo_config import cfg

GROUP = "upgrade_levels"

_HELP = (
    "Newest version of the {0} contract to send, such as {1} (the release before this one); auto: what the oldest {0} service "
    "that runs serves. A call that needs a newer one is not sent."
)

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(topic, default="auto", help=_HELP.format(topic, example))
    for topic, example in (("conductor", "1.5"), ("compute", "1.1"), ("scheduler", "1.1"))
]
