"""Tokens of consoles."""

from oslo_config import cfg

GROUP = "consoleauth"

OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        "token_ttl",
        default=600,
        min=1,
        help="Seconds in which the address of a console must be opened. It opens the console once.",
    ),
]
