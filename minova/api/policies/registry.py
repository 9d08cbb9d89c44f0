"""All policies of minova: one policy.yaml serves all four APIs."""

from minova.api.policies import base, compute, image, network, placement
from minova.api.policies.base import PolicyRule

RULES: tuple[PolicyRule, ...] = (*base.RULES, *compute.RULES, *image.RULES, *network.RULES, *placement.RULES)
