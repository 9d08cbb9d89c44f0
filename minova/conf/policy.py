"""Options of oslo.policy: the file of overrides."""

from oslo_config import cfg
from oslo_policy import opts

GROUP = "oslo_policy"

OPTS: list[cfg.Opt] = opts.list_opts()[0][1]
