"""The default policies are read once in each process of tests, not once for each API: that took a third of the CPU time of making
an API, and a thousand tests make one.
"""

from unittest.mock import patch

from minova.api.policies.enforcer import DEFAULT_FILE, LoadedRules, Policy
from minova.api.policies.registry import RULES

_load = Policy._load
_defaults: list[LoadedRules] = []


def share() -> None:
    """From now on APIs without a file of overrides have their policies in common."""
    patch.object(Policy, "_load", _load_or_share).start()


def _load_or_share(policy: Policy) -> LoadedRules:
    overridden = policy._conf.oslo_policy.policy_file != DEFAULT_FILE or any(policy._files())
    if overridden or policy.rules is not RULES:
        return _load(policy)
    if not _defaults:
        _defaults.append(_load(policy))
    return _defaults[0]
