"""Hosts, with their cells, devices and instances, and the aggregates they are in."""

import random
from collections.abc import Sequence
from typing import Any

from tests.conformance.scenarios.images import image
from tests.conformance.scenarios.words import (
    CELLS,
    DEVICES,
    METRICS,
    MULTIPLIERS,
    ZONES,
    chance,
    picked,
    some,
    uuid_from,
)

Json = dict[str, Any]
FEATURES = ("sse4.2", "aes", "vmx", "avx", "avx2", "svm")
SUPPORTED = (
    ["x86_64", "kvm", "hvm"],
    ["x86_64", "qemu", "hvm"],
    ["i686", "qemu", "hvm"],
    ["aarch64", "kvm", "hvm"],
    ["x86_64", "xen", "xen"],
    ["ppc64", "qemu", "exe"],
)
FACTORS = ("0.5", "1.0", "2", "16", "0", " 4 ", "1e1", "bad", "", "1,2", "-1", "1_0")
RATIOS = (*FACTORS, "inf")
LIMITS = ("1", "3", "8", "20", "0", " 4 ", "4,9", "abc", "", "2.5", "-1")
# What no driver would report, but a file may say.
ODD: dict[str, Sequence[Any]] = {
    "cpu_info": ("", "no JSON", '{"arch": "x86_64", "features": ["avx"]}', {}),
    "stats": ({}, {"num_instances": "3", "rack": None, "x": True, "y": 1.5}),
    "supported_instances": ([["X86_64", "KVM", "HVM"]], [["amd64", "qemu", "hvm"]]),
    "numa": ([],),
    "host_ip": ("::1", "10.0.0.255"),
    "vcpus_used": (-1,),
    "memory_mb": (0,),
    "local_gb": (0,),
    "hypervisor_type": ("", "qemu"),
    "instances": ([],),
    "metrics": ([],),
}
METADATA: dict[str, Sequence[str]] = {
    "ssd": ("true", "false", "true,false", "True"),
    "tier": ("gold", "gold,silver", "silver , bronze", ""),
    "gpu": ("2,4", "4", "8", "16"),
    "cpu_speed": ("2.4", "2.4,3.1", "3.10"),
    "rack": ("r1", "r2", "r1,r2"),
    "filter_tenant_id": ("p1", "p1, p2", "p2,p3,p4", ""),
    "filter_tenant_id_b": ("p1,p4", "p3"),
    "filter_tenant_idx": ("p2",),
    "instance_type": ("m1, c1", "m1,m2", "m3", ""),
    "cpu_allocation_ratio": RATIOS,
    "ram_allocation_ratio": RATIOS,
    "disk_allocation_ratio": RATIOS,
    "max_instances_per_host": LIMITS,
    "max_io_ops_per_host": LIMITS,
    "hw_architecture": ("x86_64", "x86_64,aarch64", "i686", "amd64"),
    "hw_disk_bus": ("virtio,scsi", "ide", "virtio"),
    "os_type": ("windows,linux", "linux"),
    "os_distro": ("rhel", "ubuntu,debian"),
    "img_hv_type": ("kvm,qemu", "KVM"),
    "hw_boot_menu": ("True", "true", "False"),
    "hw_cpu_policy": ("dedicated", "shared"),
    "hw_numa_nodes": ("1", "2,1"),
    "hw_vm_mode": ("hvm", "xen"),
    "vm_mode": ("hvm",),
    "hw_maxphysaddr_bits": ("46", "52"),
    "xx.os_type": ("linux",),
    "note": ("", "a b c"),
}


def aggregates(rng: random.Random, hosts: Sequence[Json]) -> list[Json]:
    names = [host["host"] for host in hosts]
    aggregate_list: list[Json] = []
    for number in range(rng.randint(0, 9)):
        metadata = picked(rng, METADATA, 0.1)
        metadata |= {
            f"{name}_weight_multiplier": rng.choice(FACTORS) for name in (*MULTIPLIERS, "metrics") if chance(rng, 0.06)
        }
        if chance(rng, 0.3):
            metadata["availability_zone"] = rng.choice((*ZONES, "az1,az2", ""))
        members = some(rng, names) + some(rng, ("nowhere", "HOST1"), 1)
        aggregate_list.append({"id": number + 1, "name": f"agg{number}", "hosts": members, "metadata": metadata})
    return aggregate_list


def hosts(rng: random.Random, count: int) -> list[Json]:
    busy = rng.choice((0.0, 0.1, 0.1, 0.5))
    host_list = [_host(rng, number, busy) for number in range(count)]
    if chance(rng, 0.4):
        for host in host_list:
            host["metrics"] = [{"name": name, "value": rng.randint(0, 100)} for name in METRICS]
    if chance(rng, 0.05):
        host_list.append({**rng.choice(host_list), "node": "second.example.org"})
    if chance(rng, 0.3):
        rng.shuffle(host_list)
    return host_list


def _host(rng: random.Random, number: int, busy: float) -> Json:
    """`busy`: how likely each of its resources is used up in part or whole."""
    name = f"host{number:05}"
    sockets, cores, threads = rng.choice((1, 2)), rng.choice((2, 4, 8, 16)), rng.choice((1, 2, 2, 2, 4))
    vcpus = sockets * cores * threads
    memory, disk = rng.choice((4096, 16384, 65536, 131072)), rng.choice((50, 200, 1000, 2000))
    instances = [uuid_from(rng) for _ in range(rng.choice((0, 1, 2, 5, 9)))]

    def used(amounts: Sequence[int]) -> int:
        return rng.choice(amounts) if chance(rng, busy) else 0

    host: Json = {
        "host": name,
        "vcpus": 0 if chance(rng, 0.03) else vcpus,
        "memory_mb": memory,
        "local_gb": disk,
        "vcpus_used": used((vcpus // 2, vcpus, vcpus * 5)),
        "memory_mb_used": 512 + used((memory // 3, memory, memory * 2)),
        "local_gb_used": used((disk // 4, disk, disk + 5)),
        "cpu_allocation_ratio": rng.choice((1.0, 2.0, 4.0, 16.0, 0.5)),
        "ram_allocation_ratio": rng.choice((1.0, 1.0, 1.5, 0.9, 3.0)),
        "disk_allocation_ratio": rng.choice((1.0, 1.0, 2.0, 0.5)),
        "hypervisor_type": rng.choice(("QEMU", "KVM", "ironic", "xen")),
        "hypervisor_version": rng.choice((8002001, 9000000, 10000000, 6002000, 0, 1002003004, 7)),
        "supported_instances": some(rng, SUPPORTED, 4),
        "cpu_info": _cpu_info(rng, sockets, cores, threads),
        "stats": _stats(rng, len(instances)),
        "host_ip": f"10.0.{rng.choice((0, 0, 1))}.{number % 250 + 1}",
        "instances": instances,
        "instance_images": {uuid: image(rng, valid=True) for uuid in instances if chance(rng, 0.6)},
    }
    rare: dict[str, Any] = {
        "node": f"{name}.example.org",
        "cell": rng.choice(CELLS),
        "disabled": chance(rng, 0.2),
        "forced_down": chance(rng, 0.2),
        "heartbeat_age": rng.choice((0, 10, 20, 30, 59, 60, 61, 121)),
        "disk_available_least": rng.choice((0, 5, disk // 2, disk * 2, -3)),
        "metrics": [
            {"name": name, "value": rng.randint(0, 100) if chance(rng, 0.9) else 1.5}
            for name in METRICS
            if chance(rng, 0.7)
        ],
        "pci_pools": _pools(rng),
    }
    host |= {key: value for key, value in rare.items() if chance(rng, 0.4)}
    host |= picked(rng, ODD, 0.01)
    if chance(rng, 0.75):
        host["numa"] = _numa(rng, max(1, vcpus), memory, threads, busy=busy)
    return host


def _cpu_info(rng: random.Random, sockets: int, cores: int, threads: int) -> Json | None:
    if chance(rng, 0.1):
        return None
    cpu_info: Json = {
        "arch": rng.choice(("x86_64", "aarch64")),
        "model": rng.choice(("Haswell", "EPYC")),
        "topology": {"sockets": sockets, "cores": cores, "threads": threads},
        "features": some(rng, FEATURES),
    }
    if chance(rng, 0.5):
        cpu_info["maxphysaddr"] = {"mode": rng.choice(("emulate", "passthrough")), "bits": rng.choice((39, 46, 52))}
    return cpu_info


def _stats(rng: random.Random, instances: int) -> Json:
    stats: Json = {
        "num_instances": instances if chance(rng, 0.8) else rng.randint(0, 20),
        "io_workload": rng.choice((0, 1, 3, 9, 10)),
        "failed_builds": rng.choice((0, 0, 0, 1, 3, 7)),
    }
    return stats | picked(rng, {"rack": ("r1", "r2"), "num_proj_p1": ("0", "3"), "num_os_type_linux": ("2",)}, 0.3)


def _pools(rng: random.Random) -> list[Json]:
    pools = []
    for vendor, product, kind in some(rng, DEVICES * 2):
        tags = picked(
            rng,
            {
                "physical_network": ("phys1", "phys2"),
                "trusted": ("true", "false", "True"),
                "live_migratable": ("true", "false"),
                "remote_managed": ("true", "false", "True"),
            },
            0.25,
        )
        node = rng.choice((0, 0, 1, 1, None, 3))
        pool = {"vendor_id": vendor, "product_id": product, "dev_type": kind, "numa_node": node}
        pools.append({**pool, "count": rng.choice((1, 1, 2, 3, 0)), "tags": tags})
    return pools


# -- NUMA --------------------------------------------------------------------------------------------------------------


def _numa(rng: random.Random, vcpus: int, memory: int, threads: int, *, busy: float) -> list[Json]:
    count = rng.choice([n for n in (1, 1, 2, 2, 2, 3, 4, 8) if n <= vcpus])
    each = max(threads, vcpus // count)
    kind = rng.choice(("one", "one", "one", "split", "shared", "dedicated"))
    paged, usage = chance(rng, 0.6), rng.choice((0.0, 0.2, 0.3, 0.8)) if chance(rng, 0.2 + busy) else 0.0
    sockets = rng.choice((None, 1, 2, count))
    cells = []
    for number in range(count):
        cpus = list(range(number * each, (number + 1) * each))
        cells.append(_cell(rng, number, cpus, memory // count, kind=kind, threads=threads, paged=paged, usage=usage))
        cells[-1]["socket"] = None if sockets is None else number % sockets
    if count > 2 and chance(rng, 0.1):
        del cells[1]
    return cells


def _cell(
    rng: random.Random, number: int, cpus: list[int], memory: int, *, kind: str, threads: int, paged: bool, usage: float
) -> Json:
    if chance(rng, 0.15):
        cpus = cpus[:-1] or cpus
    cores = _cores(cpus, threads, beside=chance(rng, 0.5))
    shared, dedicated = {
        "one": (cpus, cpus),
        "shared": (cpus, []),
        "dedicated": ([], cpus),
        "split": (_together(cores[: len(cores) // 3]), _together(cores[len(cores) // 3 :])),
    }[kind]
    if kind == "split" and chance(rng, 0.3):
        dedicated = dedicated[:-1]
    memory_usage = int(memory * usage * rng.random())
    return {
        "id": number,
        "cpuset": shared,
        "pcpuset": dedicated,
        "memory": memory,
        "cpu_usage": rng.randint(0, 2 * len(shared)) if usage and shared else 0,
        "memory_usage": memory_usage,
        "pinned_cpus": sorted(cpu for cpu in dedicated if usage and chance(rng, usage / 2)),
        "siblings": cores,
        "mempages": _pages(rng, memory, memory_usage) if paged else [],
    }


def _together(cores: list[list[int]]) -> list[int]:
    return sorted(cpu for core in cores for cpu in core)


def _cores(cpus: list[int], threads: int, *, beside: bool) -> list[list[int]]:
    if threads == 1:
        return [[cpu] for cpu in cpus]
    if beside:
        return [cpus[i : i + threads] for i in range(0, len(cpus), threads)]
    half = -(-len(cpus) // threads)
    return [cpus[i::half] for i in range(half)]


def _pages(rng: random.Random, memory: int, used_mb: int) -> list[Json]:
    large = int(memory * rng.choice((0.0, 0.25, 0.5, 0.9)))
    small = {"size_kb": 4, "total": (memory - large) * 256, "used": min(used_mb, memory - large) * 256}
    page_pools: list[Json] = [small]
    if large:
        total = large // 2
        page_pools.append({"size_kb": 2048, "total": total, "used": rng.randint(0, total) if chance(rng, 0.5) else 0})
    if chance(rng, 0.4):
        total = rng.randint(0, 8)
        page_pools.append({"size_kb": 1048576, "total": total, "used": rng.randint(0, total)})
    for pages in page_pools:
        if chance(rng, 0.4):
            pages["reserved"] = rng.choice((0, pages["total"] // 10, pages["total"] // 2))
    if chance(rng, 0.1):
        page_pools.reverse()
    return page_pools
