"""Options of oslo.policy: the file of overrides."""

from oslo_config import cfg
from oslo_policy import opts

GROUP = "oslo_policy"

# The rules have no older defaults that could be enforced.
OPTS: list[cfg.Opt] = [option for option in opts.list_opts()[0][1] if option.dest != "enforce_new_defaults"]
