"""Extra specs of a flavor."""

import random
from collections.abc import Sequence
from typing import Any

from tests.conformance.scenarios.words import NUMA_POLICIES, chance, picked

OPERATORS = ("= 4", "== 4", "!= 4", ">= 4", "<= 4", "s== 4", "s!= 4", "s>= 4", "s> 4", "s<= 4", "s< 4")
AGGREGATE: dict[str, Sequence[str]] = {
    "ssd": ("true", "s== true", "s!= true", "<in> ru", "<or> true <or> false", "!= true"),
    "tier": (
        "gold",
        "<or> gold <or> bronze",
        "s< c",
        "s>= c",
        "s!= gold",
        "== gold",
        "<in> ol",
        "<all-in> o l",
        "silver",
    ),
    "gpu": ("4", "8", "<or> 2 <or> 4", "<in> 4", "<all-in> 1 6", "s> 3", *OPERATORS),
    "cpu_speed": ("2.4", "== 2.40", ">= 3", "<= 2.5", "!= fast"),
    "rack": ("r1", "<or> r1 <or> r2", "<or>", "<or> ", ""),
    "nope": ("x",),
}
CAPABILITIES: dict[str, Sequence[str]] = {
    "vcpus_total": (">= 16", "<= 32", "= 8", "<or> 16 <or> 32", ">= many", "8", "!= 4"),
    "vcpus_used": ("<= 4", "0"),
    "free_ram_mb": (">= 4096", "s>= 4", "<= 0"),
    "free_disk_mb": (">= 1024",),
    "disk_mb_used": ("<= 100000",),
    "total_usable_ram_mb": (">= 8192",),
    "num_instances": ("<= 2", "0"),
    "num_io_ops": ("<= 2", "!= 0", "== 1"),
    "failed_builds": ("0",),
    "hypervisor_type": ("QEMU", "s!= KVM", "<or> KVM <or> QEMU", "s== QEMU", "<or>", "<in> EM", "qemu"),
    "hypervisor_version": (">= 9000000", "!= 0", "s== 8002001"),
    "hypervisor_hostname": ("host00001", "<in> example"),
    "host_ip": ("<in> 10.0.0", "s< 10.0.1"),
    "host": ("host00001", "s> host00002"),
    "ram_allocation_ratio": ("1.0", ">= 1.2", "!= 1.0"),
    "cpu_allocation_ratio": ("<= 4",),
    "cpu_info:features": ("<in> avx", "<all-in> avx aes", "<in> avx2", "avx", "<or> avx <or> aes"),
    "cpu_info:arch": ("s== x86_64", "x86_64"),
    "cpu_info:model": ("<or> EPYC <or> Haswell", "EPYC"),
    "cpu_info:topology:cores": ("<= 4", ">= 2", "1"),
    "cpu_info:topology": ("x", "<in> cores"),
    "cpu_info:nope": ("x",),
    "stats:rack": ("r1", "<in> r"),
    "stats:num_instances": ("<= 2",),
    "stats:nope": ("x",),
    "num_proj_p1": ("0",),
    "service:disabled": ("s== False", "False", "!= 1"),
    "service:host": ("host00001",),
    "supported_instances": ("<in> x86_64",),
    "host:name": ("x",),
    "nope": ("x",),
    "cell_uuid": ("s!= x",),
    "numa_topology": ("s!= x",),
    "pci_stats": ("s!= x",),
    "limits:x": ("1",),
    "metrics": ("s!= x",),
    "": ("x",),
}
OTHERS: dict[str, Sequence[str]] = {
    "quota:cpu_shares": ("100",),
    "ssd": ("true", "s== true"),
    "tier": ("<in> sil", "gold"),
    "rack": ("r1",),
    "hypervisor_type": ("QEMU",),
    "free_ram_mb": (">= 4096",),
    "trait:HW_CPU_X86_AVX": ("required",),
    "hw:maxphysaddr_bits": ("46", "52"),
    "hw_video:ram_max_mb": ("16",),
    "a:b:c": ("x",),
    "gpu": ("<= 4",),
}
PCI = (
    "acc:1",
    "acc:2",
    "nic:1",
    "nic:2",
    "pf:1",
    "any:1",
    "dpa:1",
    "mig:1",
    "nomig:1",
    "two:2",
    "two:4",
    "acc:1,nic:1",
    " acc :1, nic:1",
    "acc:3,nic:2",
    "acc:1,acc:1",
    *(f"acc-{policy}:{count}" for policy in NUMA_POLICIES for count in (1, 2)),
    "ghost:1",
    "acc",
    "acc:x",
    "acc:0",
    "",
    "acc:1:2",
    "k:1",
    "half:1",
)


def extra_specs(rng: random.Random, vcpus: int, memory: int) -> dict[str, Any]:
    specs: dict[str, Any] = {}
    if chance(rng, 0.15):
        specs |= {f"aggregate_instance_extra_specs:{key}": value for key, value in picked(rng, AGGREGATE, 0.3).items()}
    if chance(rng, 0.2):
        specs |= {f"capabilities:{key}": value for key, value in picked(rng, CAPABILITIES, 0.05).items()}
    if chance(rng, 0.1):
        specs |= picked(rng, OTHERS, 0.15)
    if chance(rng, 0.2):
        specs["pci_passthrough:alias"] = rng.choice(PCI)
        if chance(rng, 0.3):
            specs["hw:pci_numa_affinity_policy"] = rng.choice((*NUMA_POLICIES, "sometimes", ""))
    if chance(rng, 0.4):
        specs |= _cpus(rng, vcpus, memory)
    return specs


def _cpus(rng: random.Random, vcpus: int, memory: int) -> dict[str, str]:
    """Mostly what fits together."""
    specs = {key: value for key, value in _sensible(rng, vcpus, memory).items() if value}
    if chance(rng, 0.12):
        specs |= picked(rng, _odd(vcpus), 0.15)
    return specs


def _sensible(rng: random.Random, vcpus: int, memory: int) -> dict[str, str]:
    policy = rng.choice(("", "", "shared", "dedicated", "dedicated", "dedicated", "mixed" if vcpus > 1 else ""))
    specs = {"hw:cpu_policy": policy}
    if policy == "dedicated":
        specs["hw:cpu_thread_policy"] = rng.choice(("", "", "prefer", "isolate", "require"))
        specs["hw:emulator_threads_policy"] = rng.choice(("", "", "share", "isolate"))
        if chance(rng, 0.1):
            specs |= {
                "hw:cpu_realtime": rng.choice(("yes", "true", "no")),
                "hw:cpu_realtime_mask": rng.choice(("^0", "^0-1", "")),
            }
    if policy == "mixed" and (vcpus > 1 or chance(rng, 0.1)):
        specs["hw:cpu_dedicated_mask"] = rng.choice(("^0", "^0", "0", "^0-0", "^0-1" if vcpus > 2 else "0"))
        specs["hw:emulator_threads_policy"] = rng.choice(("", "", "share", "isolate"))
    specs["hw:mem_page_size"] = rng.choice(("", "", "", "small", "large", "any", "2048", "2MB", "4", "1GB", "1048576"))
    nodes = rng.choice(
        [
            count
            for count in (0, 0, 1, 1, 2, 2, 3, 4)
            if chance(rng, 0.03) or count == 0 or vcpus % count == memory % count == 0
        ]
        or [0]
    )
    if nodes:
        specs["hw:numa_nodes"] = str(nodes)
        if nodes <= vcpus and chance(rng, 0.3):
            specs |= _uneven(rng, nodes, vcpus, memory)
    if specs["hw:mem_page_size"] and chance(rng, 0.1):
        specs["hw:locked_memory"] = rng.choice(("true", "false"))
    return specs


def _uneven(rng: random.Random, nodes: int, vcpus: int, memory: int) -> dict[str, str]:
    cells: list[list[int]] = [[number] for number in range(nodes)]
    for cpu in range(nodes, vcpus):
        rng.choice(cells).append(cpu)
    left, specs = memory, {}
    for number, cpus in enumerate(cells):
        part = left if number == nodes - 1 else min(left, rng.choice((64, memory // nodes, memory // 4)))
        left -= part
        specs[f"hw:numa_cpus.{number}"] = ",".join(map(str, cpus))
        specs[f"hw:numa_mem.{number}"] = str(part)
    return specs


def _odd(vcpus: int) -> dict[str, Sequence[str]]:
    return {
        "hw:cpu_policy": ("free", "DEDICATED", ""),
        "hw:cpu_thread_policy": ("avoid", "isolate", "require"),
        "hw:emulator_threads_policy": ("share", "isolate", "steal"),
        "hw:cpu_dedicated_mask": ("^0", f"0-{vcpus - 1}", f"{vcpus}", "x", ""),
        "hw:cpu_realtime": ("yes",),
        "hw:cpu_realtime_mask": ("^0", f"0-{vcpus - 1}", "x", f"^0-{vcpus - 1}"),
        "hw:mem_page_size": ("tiny", "2XB", "0", "-1", "16384", "1.5MB", "2 MB", ""),
        "hw:numa_nodes": ("0", "-1", "x", "1.5", ""),
        "hw:numa_cpus.0": ("0", "0-1", "0,x", "0,0", "0-99", "^0", ""),
        "hw:numa_mem.0": ("64", "lots", "-64", ""),
        "hw:numa_cpus.1": ("1", "0"),
        "hw:numa_mem.1": ("64",),
        "hw:numa_cpus.9": ("0",),
        "resources:PCPU": (str(vcpus), "1", "x"),
        "resources:VCPU": (str(vcpus), "1"),
        "resources1:PCPU": (str(vcpus),),
        "resources:MEMORY_MB": ("64",),
        "trait:HW_CPU_HYPERTHREADING": ("required", "forbidden"),
        "hw:locked_memory": ("true", "maybe"),
        "hw:mem_encryption": ("true",),
        "hw:pci_numa_affinity_policy": ("sometimes",),
        "hw:pmem": ("4GB",),
        "hw:maxphysaddr_mode": ("emulate",),
        "hw:viommu_model": ("intel",),
    }
