"""The words that scenarios are made of: what hosts and aggregates offer is what requests ask for, mostly."""

import random
import uuid
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")

ZONES = ("az1", "az2", "az3", "nova", "internal")
PROJECTS = ("p1", "p2", "p3", "p4")
FLAVORS = ("m1", "m2", "m3", "c1")
CELLS = ("cell1", "cell2", "cell3")
IMAGES = ("image1", "image2", "image3", "image4")
# (vendor, product, kind)
DEVICES = (
    ("8086", "154c", "type-VF"),
    ("8086", "1572", "type-PCI"),
    ("15b3", "1018", "type-PF"),
    ("10de", "1eb8", "type-PCI"),
    ("8086", "1572", "vdpa"),
    ("15b3", "101e", "type-VF"),
)
METRICS = (
    "cpu.frequency",
    "cpu.user.time",
    "cpu.idle.time",
    "cpu.percent",
    "cpu.user.percent",
    "cpu.iowait.percent",
)
MULTIPLIERS = (
    "ram",
    "cpu",
    "disk",
    "io_ops",
    "pci",
    "soft_affinity",
    "soft_anti_affinity",
    "build_failure",
    "cross_cell_move",
    "hypervisor_version",
    "num_instances",
    "image_props",
)
NUMA_POLICIES = ("required", "preferred", "legacy", "socket")


def chance(rng: random.Random, probability: float) -> bool:
    return rng.random() < probability


def some(rng: random.Random, of: Sequence[T], most: int | None = None) -> list[T]:
    """A few, each once, in any order."""
    return rng.sample(list(of), rng.randint(0, min(len(of), most or len(of))))


def uuid_from(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def picked(rng: random.Random, table: dict[str, Sequence[Any]], each: float) -> dict[str, Any]:
    """Some keys, each with one of its values."""
    return {key: rng.choice(list(values)) for key, values in table.items() if chance(rng, each)}
