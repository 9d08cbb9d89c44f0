"""Every policy of minova: one policy.yaml serves all three APIs."""

from minova.api.policies import base, compute, image, placement
from minova.api.policies.base import Rule

RULES: tuple[Rule, ...] = (*base.RULES, *compute.RULES, *image.RULES, *placement.RULES)
