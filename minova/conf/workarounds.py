"""Nova's group [workarounds], as far as it concerns minova."""

from oslo_config import cfg

GROUP = "workarounds"

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "disable_fallback_pcpu_query",
        default=False,
        help="Pinned CPUs only on hosts that offer PCPU; otherwise hosts that offer VCPU alone are asked for these.",
    ),
]
