"""Requests and options from a few words."""

from typing import Any

import numpy as np

import minova.conf
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.instance_group import InstanceGroup
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.hosts.record import AggregateFacts

SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap", "name", "extra_specs")


def options(**overrides: Any) -> Any:
    """Every option at its default but these, of [filter_scheduler] or, where a group and `__` stand in front, of that."""
    conf = minova.conf.new()
    conf([], default_config_files=[], default_config_dirs=[])
    for key, value in overrides.items():
        group, _, name = key.rpartition("__")
        conf.set_override(name, value, group=group or "filter_scheduler")
    return conf


def request(**facts: Any) -> RequestSpec:
    """1 vcpu, 2048 MB, 10 GB; sizes and `extra_specs` go to the flavor, `properties` and `image_id` to the image, and
    `policy`, `members`, `hosts`, `most` to the server group.
    """
    sizes: dict[str, Any] = {"vcpus": 1, "memory_mb": 2048, "root_gb": 10, "name": "m1"}
    sizes |= {name: facts.pop(name) for name in SIZES if name in facts}
    image = Image(id=facts.pop("image_id", "i"), properties=facts.pop("properties", {}))
    if "policy" in facts:
        facts["instance_group"] = InstanceGroup(
            uuid="g",
            policy=facts.pop("policy"),
            members=facts.pop("members", ()),
            hosts=facts.pop("hosts", ()),
            max_server_per_host=facts.pop("most", None),
        )
    hints = facts.pop("hints", {})
    return RequestSpec(flavor=Flavor(flavorid="f", **sizes), image=image, scheduler_hints=hints, **facts)


def aggregate(**metadata: str) -> AggregateFacts:
    return AggregateFacts(1, "a", tuple(sorted(metadata.items())))


def aggregates(*metadata: dict[str, str]) -> tuple[AggregateFacts, ...]:
    """One of each."""
    return tuple(
        AggregateFacts(number, f"a{number}", tuple(sorted(pairs.items()))) for number, pairs in enumerate(metadata)
    )


def per_host(numbers: Any, hosts: int) -> list[float]:
    """Of each host, where one number stands for all."""
    return list(np.broadcast_to(numbers, hosts).tolist())
