"""The HostStates of a scenario."""

import datetime
import json

from names import uuid_of
from nova import objects
from nova.scheduler import host_manager


def numa_cell(cell):
    pages = [
        objects.NUMAPagesTopology(
            size_kb=page["size_kb"], total=page["total"], used=page.get("used", 0), reserved=page.get("reserved", 0)
        )
        for page in cell.get("mempages", [])
    ]
    return objects.NUMACell(
        id=cell["id"],
        cpuset=set(cell.get("cpuset", [])),
        pcpuset=set(cell.get("pcpuset", [])),
        memory=cell["memory"],
        cpu_usage=cell.get("cpu_usage", 0),
        memory_usage=cell.get("memory_usage", 0),
        pinned_cpus=set(cell.get("pinned_cpus", [])),
        siblings=[set(siblings) for siblings in cell.get("siblings", [])],
        mempages=pages,
        socket=cell.get("socket"),
    )


def pci_pool(pool):
    return objects.PciDevicePool(
        vendor_id=pool["vendor_id"],
        product_id=pool["product_id"],
        numa_node=pool.get("numa_node"),
        count=pool.get("count", 0),
        tags={"dev_type": pool.get("dev_type", "type-PCI"), **pool.get("tags", {})},
    )


def compute_node(host, number):
    numa = host.get("numa")
    topology = objects.NUMATopology(cells=[numa_cell(cell) for cell in numa]) if numa else None
    info = host.get("cpu_info")
    return objects.ComputeNode(
        id=number,
        uuid=uuid_of(host.get("uuid") or host["host"]),
        host=host["host"],
        hypervisor_hostname=host.get("node") or host["host"],
        vcpus=host["vcpus"],
        vcpus_used=host.get("vcpus_used", 0),
        memory_mb=host["memory_mb"],
        memory_mb_used=host.get("memory_mb_used", 0),
        free_ram_mb=host["memory_mb"] - host.get("memory_mb_used", 0),
        local_gb=host["local_gb"],
        local_gb_used=host.get("local_gb_used", 0),
        free_disk_gb=host["local_gb"] - host.get("local_gb_used", 0),
        disk_available_least=host.get("disk_available_least"),
        cpu_allocation_ratio=host.get("cpu_allocation_ratio", 4.0),
        ram_allocation_ratio=host.get("ram_allocation_ratio", 1.0),
        disk_allocation_ratio=host.get("disk_allocation_ratio", 1.0),
        hypervisor_type=host.get("hypervisor_type", "QEMU"),
        hypervisor_version=host.get("hypervisor_version", 0),
        host_ip=host.get("host_ip"),
        cpu_info=info if info is None or isinstance(info, str) else json.dumps(info),
        supported_hv_specs=[objects.HVSpec.from_list(spec) for spec in host.get("supported_instances", [])],
        stats=host.get("stats", {}),
        metrics=metrics_text(host.get("metrics", [])),
        numa_topology=topology._to_json() if topology else None,
        pci_device_pools=objects.PciDevicePoolList(objects=[pci_pool(pool) for pool in host.get("pci_pools", [])]),
        updated_at=None,
    )


def metrics_text(metrics):
    stamp = "2020-01-01T00:00:00.000000"
    return json.dumps([{"timestamp": stamp, "source": "test", **metric} for metric in metrics])


def service(host, number, now):
    age = datetime.timedelta(seconds=host.get("heartbeat_age", 0))
    return {
        "id": number,
        "host": host["host"],
        "binary": "nova-compute",
        "topic": "compute",
        "report_count": 1,
        "disabled": host.get("disabled", False),
        "disabled_reason": None,
        "forced_down": host.get("forced_down", False),
        "last_seen_up": now - age,
        "created_at": now - age,
        "updated_at": now - age,
    }


def instance(name, images):
    properties = images.get(name)
    instance = objects.Instance(uuid=uuid_of(name), image_ref="")
    instance.system_metadata = {f"image_{key}": value for key, value in (properties or {}).items()}
    return instance


def host_states(scenario, now):
    aggregates = [
        objects.Aggregate(
            id=aggregate.get("id", number),
            uuid=uuid_of(f"aggregate {number}"),
            name=aggregate.get("name", ""),
            hosts=list(aggregate.get("hosts", [])),
            metadata=dict(aggregate.get("metadata", {})),
        )
        for number, aggregate in enumerate(scenario.get("aggregates", []))
    ]
    states = []
    for number, host in enumerate(scenario["hosts"], 1):
        images = host.get("instance_images", {})
        names = [*host.get("instances", []), *(name for name in images if name not in host.get("instances", []))]
        state = host_manager.HostState(
            host["host"], host.get("node") or host["host"], uuid_of(host.get("cell") or "cell")
        )
        state.update(
            compute=compute_node(host, number),
            service=service(host, number, now),
            aggregates=[aggregate for aggregate in aggregates if host["host"] in aggregate.hosts],
            inst_dict={uuid_of(name): instance(name, images) for name in names},
        )
        states.append(state)
    return states
