"""Random hosts, guests, devices, flavors and images, for Nova and minova to agree about. JSON in shape."""

import itertools
import json
from random import Random
from typing import Any

Case = dict[str, Any]

SIZES = (4, 2048, 1048576)
TAGS: tuple[dict[str, str], ...] = (
    {},
    {},
    {},
    {"physical_network": "phys1"},
    {"physical_network": "Phys1", "trusted": "true"},
    {"remote_managed": "true"},
    {"remote_managed": "false", "live_migratable": "true"},
    {"live_migratable": "false"},
)
DEVICES = (
    ("8086", "154c", "type-VF"),
    ("8086", "1572", "type-PCI"),
    ("8086", "1572", "type-PF"),
    ("10de", "1eb8", "type-PCI"),
    ("15b3", "1018", "vdpa"),
)


def case(random: Random) -> Case:
    return random.choices((fit_case, constraints_case, pci_case), (5, 4, 1))[0](random)


# -- hosts and guests --------------------------------------------------------------------------------------------------


def fit_case(random: Random) -> Case:
    host = host_cells(random)
    guest_topology = guest(random, most=len(host))
    return {
        "kind": "fit",
        "host": host,
        "wanted": guest_topology,
        "limits": random.choice(
            (
                None,
                {"cpu_allocation_ratio": 1.0, "ram_allocation_ratio": 1.0},
                {
                    "cpu_allocation_ratio": random.choice((0.5, 1.5, 4.0, 16.0)),
                    "ram_allocation_ratio": random.choice((0.9, 1.0, 1.5)),
                },
            )
        ),
        "packing": random.random() < 0.4,
        **devices(random, len(host), anything=random.random() < 0.3),
    }


def host_cells(random: Random) -> list[Case]:
    threads = random.choice((1, 1, 2, 2, 2, 4))
    cores = random.choice((2, 3, 4, 8))
    number = random.choices((1, 2, 4, 8), (3, 5, 3, 1))[0]
    layout = random.choice(("one set", "one set", "two sets", "dedicated", "shared"))
    sizes = random.choice(((), (4,), (4, 2048), (4, 2048, 1048576), (2048, 1048576), (2048,)))
    memory = random.choice((1024, 4096, 8192, 16384))
    per_socket = random.choice((1, 2, 0))
    cells = []
    for index in range(number):
        members = range(index * cores * threads, (index + 1) * cores * threads)
        siblings = [list(members[core * threads : (core + 1) * threads]) for core in range(cores)]
        shared, pinned = split(random, siblings, layout)
        siblings = [[cpu for cpu in core if cpu in shared or cpu in pinned] for core in siblings]
        taken = [cpu for cpu in sorted(pinned) if random.random() < random.choice((0, 0, 0.3, 0.7))]
        cells.append(
            {
                "id": index,
                "cpuset": sorted(shared),
                "pcpuset": sorted(pinned),
                "memory": memory,
                "cpu_usage": random.choice((0, 0, 1, len(shared), 2 * len(shared))),
                "memory_usage": random.choice((0, 0, 0, 512, memory // 2, memory)),
                "pinned_cpus": taken,
                "siblings": [core for core in siblings if core],
                "socket": index // per_socket if per_socket else None,
                "mempages": [pages(random, size, memory // len(sizes)) for size in sizes],
            }
        )
    return cells


def split(random: Random, siblings: list[list[int]], layout: str) -> tuple[set[int], set[int]]:
    members = set(itertools.chain(*siblings))
    if layout == "one set":
        kept = {cpu for cpu in members if random.random() < random.choice((1, 1, 1, 0.8))} or members
        return kept, kept
    if layout == "two sets":
        shared = set(itertools.chain(*siblings[: len(siblings) // 2]))
        return shared, members - shared
    return (set(), members) if layout == "dedicated" else (members, set())


def pages(random: Random, size_kb: int, memory: int) -> Case:
    total = memory * 1024 // size_kb
    return {
        "size_kb": size_kb,
        "total": total,
        "used": int(total * random.choice((0, 0, 0, 0, 0.25, 0.5, 1))),
        "reserved": int(total * random.choice((0, 0, 0, 0.1))),
    }


def guest(random: Random, most: int) -> Case:
    number = random.choice((1, 1, 2, random.randint(1, min(most + 1, 4))))
    policy = random.choice((None, "shared", "dedicated", "dedicated", "dedicated", "mixed"))
    pagesize = random.choice((None, None, None, -1, -2, -3, 4, 2048, 1048576, 16384))
    threads = random.choice((None, "prefer", "isolate", "require")) if policy in ("dedicated", "mixed") else None
    alike = random.random() < 0.6
    vcpus, memory = random.choice((1, 2, 2, 3, 4, 6)), random.choice((128, 256, 512, 512, 1000, 1024, 2048, 3000))
    cells = []
    start = 0
    for index in range(number):
        if not alike:
            vcpus, memory = random.choice((0, 1, 2, 3, 4, 6)), random.choice((128, 256, 512, 1024, 2048))
        members = range(start, start + vcpus)
        start += vcpus
        pinned = {None: 0, "shared": 0, "dedicated": vcpus, "mixed": random.randint(0, vcpus)}[policy]
        cells.append(
            {
                "id": index,
                "cpuset": list(members[pinned:]),
                "pcpuset": list(members[:pinned]),
                "memory": memory,
                "pagesize": pagesize,
                "cpu_policy": policy,
                "cpu_thread_policy": threads,
            }
        )
    emulator = random.choice((None, None, "share", "isolate")) if policy in ("dedicated", "mixed") else None
    return {"cells": cells, "emulator_threads_policy": emulator}


# -- devices -----------------------------------------------------------------------------------------------------------


def devices(random: Random, nodes: int, *, anything: bool) -> Case:
    pools = []
    for _ in range(random.randint(0, 6)):
        vendor, product, dev_type = random.choice(DEVICES)
        pools.append(
            {
                "vendor_id": vendor,
                "product_id": product,
                "dev_type": dev_type,
                "numa_node": random.choice((None, *range(nodes))),
                "count": random.choice((0, 1, 1, 2, 3)),
                "tags": sorted(random.choice(TAGS).items()),
            }
        )
    server_request = [pci_request(random) for _ in range(random.choice((1, 1, 1, 2, 3)))] if anything else []
    return {"pools": pools, "requests": server_request}


def pci_request(random: Random) -> Case:
    specs = []
    for _ in range(random.choice((1, 1, 1, 2))):
        vendor, product, dev_type = random.choice(DEVICES)
        spec = {"vendor_id": vendor}
        if random.random() < 0.7:
            spec["product_id"] = product
        if random.random() < 0.5:
            spec["dev_type"] = dev_type
        if random.random() < 0.3:
            spec |= random.choice(TAGS)
        if random.random() < 0.1:
            spec["resource_class"] = "CUSTOM_NIC"
        specs.append(sorted(spec.items()))
    return {
        "count": random.choice((0, 1, 1, 1, 2, 3)),
        "spec": specs,
        "numa_policy": random.choice((None, "legacy", "required", "preferred", "socket")),
    }


def pci_case(random: Random) -> Case:
    return {"kind": "pci", **devices(random, 4, anything=True)}


# -- flavors and images ------------------------------------------------------------------------------------------------

VALUES: dict[str, tuple[str, ...]] = {
    "hw:numa_nodes": ("1", "2", "2", "4", "0", "03", "x", "-1"),
    "hw:cpu_policy": ("dedicated", "dedicated", "dedicated", "shared", "mixed", "mixed", "free"),
    "hw:cpu_thread_policy": ("prefer", "isolate", "require", "avoid"),
    "hw:emulator_threads_policy": ("share", "isolate", "isolate", "elsewhere"),
    "hw:cpu_dedicated_mask": ("^0", "^0-1", "0-1", "1", "0-9", "^0-9", "2-x", "0-3"),
    "hw:cpu_realtime": ("yes", "true", "no"),
    "hw:cpu_realtime_mask": ("^0", "^0-1", "2-3", "1", "0-9", "^0-9", "x"),
    "hw:mem_page_size": (
        "small",
        "large",
        "any",
        "4",
        "2048",
        "2MB",
        "1GB",
        "1G",
        "0",
        "lots",
        "2048KB",
        "16Kib",
        "1.5MB",
    ),
    "hw:locked_memory": ("true", "false", "1", "maybe"),
    "hw:mem_encryption": ("true", "false"),
    "hw:mem_encryption_model": ("amd-sev", "amd-sev-snp", "intel-tdx", "rot13"),
    "hw:pmem": ("2GB", "6GB,SMALL", " , "),
    "hw:pci_numa_affinity_policy": ("required", "preferred", "legacy", "socket", "sometimes"),
    "resources:PCPU": ("1", "2", "3", "4", "5", "x"),
    "resources1:PCPU": ("2", "0"),
    "resources:VCPU": ("1", "4", "0"),
    "trait:HW_CPU_HYPERTHREADING": ("required", "forbidden", "maybe"),
    "pci_passthrough:alias": (
        "nic:1",
        "nic:1, acc:2",
        "ghost:1",
        "nic",
        "nic:1:1",
        "nic:x",
        "two:0",
        "nic:1,ghost:1",
        "",
    ),
}
IMAGE_VALUES: dict[str, tuple[str, ...]] = {
    "hw_numa_nodes": ("1", "2", "4", "0", "x"),
    "hw_cpu_policy": ("dedicated", "shared", "mixed", "free"),
    "hw_cpu_thread_policy": ("prefer", "isolate", "require", "avoid"),
    "hw_cpu_realtime_mask": ("^0", "1-2", "x-2"),
    "hw_mem_page_size": ("small", "2048", "any", "huge"),
    "hw_locked_memory": ("true", "false"),
    "hw_mem_encryption": ("true", "false"),
    "hw_mem_encryption_model": ("amd-sev", "intel-tdx", "rot13"),
    "hw_firmware_type": ("uefi", "uefi", "bios"),
    "hw_firmware_stateless": ("true", "no"),
    "hw_machine_type": ("q35", "pc-q35-6.2", "pc"),
    "hw_pci_numa_affinity_policy": ("required", "socket", "sometimes"),
    "trait:HW_CPU_HYPERTHREADING": ("required", "forbidden"),
}
FAULTS = {"x", "free", "avoid", "rot13", "sometimes"}
ALIAS_VALUES: dict[str, tuple[Any, ...]] = {
    "name": ("nic", "nic", "acc", "two", "two", "", 5),
    "vendor_id": ("8086", "8086", "15b3", "86"),
    "product_id": ("154c", "1572", "zzzz"),
    "device_type": ("type-VF", "type-PCI", "type-PF", "vdpa"),
    "numa_policy": ("legacy", "required", "never"),
    "live_migratable": ("true", "No", "perhaps"),
    "resource_class": ("CUSTOM_NIC",),
    "capability_type": ("pci", "usb"),
    "colour": ("red",),
}
GOOD_ALIASES = tuple(
    json.dumps({"name": name, "vendor_id": "8086", "product_id": product, "device_type": "type-PCI"})
    for name, product in (("nic", "154c"), ("acc", "1572"), ("two", "1572"), ("two", "0442"))
)


def constraints_case(random: Random) -> Case:
    vcpus = random.choice((1, 2, 4, 4, 4, 6, 8))
    memory_mb = random.choice((512, 1024, 4096, 4096, 3000))
    chance = random.choice((0.05, 0.1, 0.2))
    extra_specs = {key: random.choice(values) for key, values in VALUES.items() if random.random() < chance}
    image = {key: random.choice(values) for key, values in IMAGE_VALUES.items() if random.random() < chance / 2}
    if random.random() < 0.5:
        extra_specs["hw:cpu_policy"] = random.choice(("dedicated", "mixed", "shared"))
    if random.random() < 0.3:
        extra_specs |= division(random, vcpus, memory_mb, "hw:numa")
    # Of two faults in one image Nova tells the one that comes first among its fields, which is of no account.
    if random.random() < 0.1 and not FAULTS.intersection(image.values()):
        image |= division(random, vcpus, memory_mb, "hw_numa")
    return {
        "kind": "constraints",
        "vcpus": vcpus,
        "memory_mb": memory_mb,
        "extra_specs": extra_specs,
        "image": image,
        "aliases": list(GOOD_ALIASES)
        if random.random() < 0.8
        else [alias(random) for _ in range(random.randint(1, 3))],
        "pci_in_placement": random.random() < 0.1,
    }


def division(random: Random, vcpus: int, memory_mb: int, prefix: str) -> dict[str, str]:
    """CPUs and memory by cell: mostly right, sometimes with a fault."""
    number = random.randint(1, 3)
    of_cpu = [random.randrange(number) for _ in range(vcpus)]
    if random.random() < 0.1:
        of_cpu.append(0)
    specs = {}
    left = memory_mb
    for cell in range(number):
        cpus = [str(cpu) for cpu, home in enumerate(of_cpu) if home == cell]
        memory = left if cell == number - 1 else left // 2
        left -= memory
        specs[f"{prefix}_cpus.{cell}"] = ",".join(cpus) or "^0"
        specs[f"{prefix}_mem.{cell}"] = str(memory)
    if random.random() < 0.2:
        specs[random.choice(list(specs))] = random.choice(("0", "0-1", "x", "100"))
    if random.random() < 0.1:
        specs.pop(random.choice(list(specs)))
    if random.random() < 0.8:
        specs[f"{prefix}_nodes"] = str(number)
    return specs


def alias(random: Random) -> str:
    if random.random() < 0.05:
        return random.choice(("{", "[]", '"nic"', "{}"))
    usual = {"name": "nic", "vendor_id": "8086", "product_id": "154c", "device_type": "type-VF"}
    values: dict[str, Any] = {key: value for key, value in usual.items() if random.random() < 0.95}
    for key in random.sample(list(ALIAS_VALUES), random.choice((0, 0, 1, 2))):
        values[key] = random.choice(ALIAS_VALUES[key])
    return json.dumps(values)
