"""Random small clouds, and random queries of allocation candidates on them."""

import random
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB", "SRIOV_NET_VF")
TRAITS = ("HW_CPU_X86_SSE", "HW_CPU_X86_AVX", "HW_NUMA_ROOT", "STORAGE_DISK_SSD")
SHARES = "MISC_SHARES_VIA_AGGREGATE"
VERSIONS = ("1.10", "1.12", "1.16", "1.17", "1.21", "1.22", "1.25", "1.29", "1.32", "1.33", "1.34", "1.36", "1.39")


def uuid_of(draw: random.Random) -> str:
    return str(UUID(int=draw.getrandbits(128), version=4))


def some(draw: random.Random, values: Sequence[str], chance: float = 0.4) -> list[str]:
    return [value for value in values if draw.random() < chance]


def cloud(draw: random.Random) -> dict[str, Any]:
    """{providers, consumers, aggregates}: `inventories` and `allocations` in the shape of Placement's API."""
    aggregates = [uuid_of(draw) for _ in range(3)]
    flat = draw.random() < 0.2
    shared = draw.random() < 0.5
    providers: list[dict[str, Any]] = []
    for _ in range(draw.randint(1, 4)):
        tree = [_provider(draw, None, aggregates)]
        for _ in range(0 if flat else draw.randint(0, 4)):
            tree.append(_provider(draw, draw.choice(tree)["uuid"], aggregates))
        providers += tree
    for _ in range(draw.randint(1, 2) if shared else 0):
        sharing_provider = _provider(draw, None, aggregates)
        sharing_provider["traits"].append(SHARES)
        providers.append(sharing_provider)
    consumers: dict[str, Any] = {}
    for provider in providers:
        for name, inventory in provider["inventories"].items():
            amount = inventory["step_size"] * draw.randint(0, 3)
            if (
                inventory["min_unit"]
                <= amount
                <= min(inventory["max_unit"], inventory["total"] - inventory["reserved"])
            ):
                consumers[uuid_of(draw)] = {provider["uuid"]: {"resources": {name: amount}}}
    return {"providers": providers, "consumers": consumers, "aggregates": aggregates}


def _provider(draw: random.Random, parent: str | None, aggregates: Sequence[str]) -> dict[str, Any]:
    return {
        "uuid": uuid_of(draw),
        "parent": parent,
        "inventories": {name: _inventory(draw) for name in some(draw, CLASSES, 0.7)},
        "traits": some(draw, TRAITS),
        "aggregates": some(draw, aggregates, 0.3),
    }


def _inventory(draw: random.Random) -> dict[str, Any]:
    total = draw.randint(3, 12)
    return {
        "total": total,
        "reserved": draw.choice([0, 0, 0, 1]),
        "min_unit": draw.choice([1, 1, 1, 1, 1, 2]),
        "max_unit": draw.choice([total, total, 3]),
        "step_size": draw.choice([1, 1, 1, 1, 1, 2]),
        "allocation_ratio": draw.choice([1.0, 1.0, 1.5]),
    }


def query(draw: random.Random, cloud: dict[str, Any]) -> tuple[str, str]:
    """(microversion, query string), which that microversion understands."""
    text = draw.choice([*VERSIONS, "1.39", "1.39", "1.39"])
    version = (1, int(text.split(".")[1]))
    suffixes = [""] if version < (1, 25) else _suffixes(draw, version)
    parts: list[tuple[str, str]] = []
    classes: dict[str, set[str]] = {}
    for suffix in suffixes:
        resourceless = version >= (1, 36) and suffix not in ("", suffixes[-1]) and draw.random() < 0.2
        classes[suffix] = set()
        if not resourceless:
            classes[suffix] = set(draw.sample(CLASSES, draw.randint(1, 2 if suffix else 3)))
            message = ",".join(f"{name}:{draw.randint(1, 3)}" for name in sorted(classes[suffix]))
            parts.append((f"resources{suffix}", message))
        parts += _filters(draw, cloud, suffix, version, resourceless)
    parts += _wide(draw, version, suffixes, classes)
    return text, urlencode(parts)


def _suffixes(draw: random.Random, version: tuple[int, int]) -> list[str]:
    names = ["1", "2", "3"] if version < (1, 33) else ["_A", "_B", "3"]
    granular = names[: draw.randint(0, 3)]
    return granular if granular and draw.random() < 0.5 else ["", *granular]


def _filters(
    draw: random.Random, cloud: dict[str, Any], suffix: str, version: tuple[int, int], resourceless: bool
) -> list[tuple[str, str]]:
    parts = []
    # A group that asks for nothing, and names no trait, finds no provider in OpenStack, whatever else it names.
    if version >= (1, 17) and (resourceless or draw.random() < 0.25):
        parts += _traits(draw, f"required{suffix}", version)
    if version >= (1, 21) and draw.random() < 0.25:
        kinds = ["{0}", "in:{0},{1}"] + (["!{0}", "!in:{0},{1}"] if version >= (1, 32) else [])
        pair = draw.sample(cloud["aggregates"], 2)
        parts.append((f"member_of{suffix}", draw.choice(kinds).format(*pair)))
    if version >= (1, 31) and not resourceless and draw.random() < 0.15:
        parts.append((f"in_tree{suffix}", draw.choice(cloud["providers"])["uuid"]))
    return parts


def _traits(draw: random.Random, key: str, version: tuple[int, int]) -> list[tuple[str, str]]:
    first, second, third = draw.sample(TRAITS, 3)
    parts = [(key, f"{first},!{second}" if version >= (1, 22) and draw.random() < 0.4 else first)]
    if version >= (1, 39) and draw.random() < 0.4:
        parts.append((key, f"in:{first if draw.random() < 0.5 else second},{third}"))
    return parts


def _wide(
    draw: random.Random, version: tuple[int, int], suffixes: list[str], classes: dict[str, set[str]]
) -> list[tuple[str, str]]:
    parts = []
    granular = [suffix for suffix in suffixes if suffix]
    in_many = any(classes[a] & classes[b] for a in suffixes for b in suffixes if a < b)
    if version >= (1, 25) and (len(granular) > 1 or in_many):
        # OpenStack adds up amounts of the group without suffix wrongly unless the policy is none.
        mixed = any(classes[""] & classes[suffix] for suffix in granular) if "" in classes else False
        parts.append(("group_policy", "none" if mixed or draw.random() < 0.5 else "isolate"))
    if version >= (1, 35) and draw.random() < 0.15:
        parts.append(("root_required", draw.choice(["{0}", "!{0}", "{0},!{1}"]).format(*draw.sample(TRAITS, 2))))
    resourceless = [suffix for suffix in granular if not classes[suffix]]
    if resourceless or (version >= (1, 36) and len(granular) > 1 and draw.random() < 0.4):
        chosen = {*resourceless, *draw.sample(granular, draw.randint(1, len(granular)))}
        parts.append(("same_subtree", ",".join(sorted(chosen))))
    return parts
