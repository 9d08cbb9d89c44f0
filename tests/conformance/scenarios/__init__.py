"""Makes scenarios at random, each of its seed alone: every filter, weigher, option, extra spec, hint and property, with
values that fit, values that do not, and values that are none.
"""

import random
from typing import Any

from tests.conformance.scenarios.clouds import aggregates, hosts
from tests.conformance.scenarios.options import chain, options
from tests.conformance.scenarios.requests import requests


def scenario(seed: int, *, size: int = 12, asked: int = 20) -> dict[str, Any]:
    """`size` hosts at most and `asked` requests."""
    rng = random.Random(seed)
    cloud = hosts(rng, rng.randint(1, size))
    return {
        "seed": seed,
        "filters": chain(rng),
        "config": options(rng, cloud),
        "aggregates": aggregates(rng, cloud),
        "hosts": cloud,
        "requests": requests(rng, cloud, asked),
    }
