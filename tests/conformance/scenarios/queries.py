"""Queries of JsonFilter."""

import json
import random
from collections.abc import Sequence
from typing import Any

from tests.conformance.scenarios.words import chance

VARIABLES: dict[str, Sequence[Any]] = {
    "$free_ram_mb": (512, 4096, 16000),
    "$total_usable_ram_mb": (8192,),
    "$free_disk_mb": (1024, 204800),
    "$disk_mb_used": (0, 100000),
    "$total_usable_disk_gb": (50,),
    "$vcpus_used": (0, 4, 16),
    "$vcpus_total": (4, 16),
    "$num_instances": (0, 2),
    "$num_io_ops": (0, 1, 3),
    "$failed_builds": (0, 1),
    "$hypervisor_type": ("QEMU", "KVM", 3),
    "$hypervisor_version": (8002001, 9000000),
    "$hypervisor_hostname": ("host00001",),
    "$host": ("host00001", "host00003"),
    "$nodename": ("host00002", "host00002.example.org"),
    "$host_ip": ("10.0.0.1",),
    "$cell_uuid": ("x",),
    "$cpu_allocation_ratio": (1.0, 4.0),
    "$ram_allocation_ratio": (1.0,),
    "$stats.num_instances": ("0", 2, "2"),
    "$stats.rack": ("r1",),
    "$stats.nope": (3,),
    "$service.disabled": (False, True),
    "$service.host": ("host00000",),
    "$service.nope": (1,),
    "$nope": (1,),
    "$limits.memory_mb": (1,),
    "$uuid": ("x",),
    "$updated": (None,),
    "$": ("x",),
}
COMPARISONS = ("=", "<", ">", "<=", ">=", "in")
# Others than lists of an operator and its arguments, and operators that do not exist.
ODD = (
    "[]",
    '"x"',
    "5",
    "null",
    "{}",
    "true",
    "[",
    "",
    '["=", "$free_ram_mb"]',
    '["xor", 1]',
    '["not"]',
    "[[]]",
    '["and"]',
    '["in"]',
    '["or", []]',
)


def query(rng: random.Random, hosts: Sequence[Any]) -> str:
    if chance(rng, 0.12):
        return rng.choice(ODD)
    return json.dumps(_term(rng, 2))


def _term(rng: random.Random, depth: int) -> Any:
    if depth == 0 or chance(rng, 0.4):
        return _comparison(rng)
    operator = rng.choice(("and", "or", "not", "and", "or"))
    terms = [_term(rng, depth - 1) for _ in range(rng.choice((1, 2, 3)))]
    if chance(rng, 0.05):
        terms.append([])
    return [operator, *terms]


def _comparison(rng: random.Random) -> list[Any]:
    name = rng.choice(list(VARIABLES))
    values = [rng.choice(VARIABLES[name]) for _ in range(rng.choice((1, 1, 1, 2)))]
    if chance(rng, 0.05):
        values.append(rng.choice(list(VARIABLES)))
    terms = [name, *values]
    if chance(rng, 0.04):
        terms = []
    if chance(rng, 0.05):
        rng.shuffle(terms)
    return [rng.choice(COMPARISONS), *terms]
