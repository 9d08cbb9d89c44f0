"""Many `local` networks on one host, by the real libvirt: seconds to make, prove and remove them, the memory of their
programs, and that of the kernel. `--former` makes them as release 0.1.0 did, by libvirt alone.
"""

import time
import uuid
from pathlib import Path
from xml.etree import ElementTree as ET

import libvirt
import psutil

from minova.objects.network.vif import Vif, VifAddress, VifSubnet, bridge_name, network_name
from minova.virt.libvirt.networking.networks import network_xml
from minova.virt.namespaces.host_networks import of_this_host
from minova.virt.namespaces.network import host_of, network_of
from tests.benchmarks.command_line import Option, parse
from tests.servers.libvirtd import Libvirtd

# Of each thread, on x86.
STACK_KIB = 16


def vif(number: int) -> Vif:
    """The interface of a guest; each network has one."""
    subnet = VifSubnet(
        id="s", cidr=f"10.{number >> 8}.{number & 255}.0/24", gateway_ip=f"10.{number >> 8}.{number & 255}.1"
    )
    return Vif(
        port_id=str(uuid.uuid4()),
        mac_address=f"fa:16:3e:00:{number >> 8:02x}:{number & 255:02x}",
        network_id=str(uuid.uuid4()),
        addresses=(VifAddress(subnet_id="s", ip_address=f"10.{number >> 8}.{number & 255}.5"),),
        subnets=(subnet,),
    )


def former_xml(one: Vif) -> str:
    root = ET.fromstring(network_xml(one))
    dns = root.find("dns")
    assert dns is not None
    root.remove(dns)
    ET.SubElement(root, "forward", mode="nat")
    (subnet,) = one.subnets
    served = ET.SubElement(root, "ip", address=str(subnet.gateway_ip), prefix="24")
    host = {"mac": one.mac_address, "ip": one.addresses[0].ip_address, "name": "web"}
    ET.SubElement(ET.SubElement(served, "dhcp"), "host", host)
    return ET.tostring(root, encoding="unicode")


def memory_mb() -> float:
    """Of all dnsmasq processes, each page counted once."""
    processes = [each for each in psutil.process_iter(["name"]) if each.info["name"] == "dnsmasq"]
    return float(sum(each.memory_full_info().pss for each in processes)) / (1 << 20)


def of_processes() -> tuple[int, float]:
    """The number of dnsmasq processes, and what the kernel has for them: page tables and stacks, in MB."""
    processes = [each for each in psutil.process_iter(["name"]) if each.info["name"] == "dnsmasq"]
    said = [Path(f"/proc/{each.pid}/status").read_text() for each in processes]
    tables = [int(text.partition("VmPTE:")[2].split()[0]) for text in said if "VmPTE:" in text]  # a zombie has none
    return len(tables), (sum(tables) + STACK_KIB * len(tables)) / 1024


def kernel_mb() -> dict[str, float]:
    """What the kernel has for itself, by kinds; other work on the machine changes it, too."""
    kinds = ("SUnreclaim", "Percpu", "VmallocUsed", "KernelStack", "PageTables")
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return {line[0].rstrip(":"): int(line[1]) / 1024 for line in lines if line[0].rstrip(":") in kinds}


def slab_mb() -> dict[str, float]:
    """By caches."""
    megabytes_by_slab = {}
    for line in Path("/proc/slabinfo").read_text().splitlines()[2:]:
        name, _, objects, size, *_ = line.split()
        megabytes_by_slab[name] = int(objects) * int(size) / (1 << 20)
    return megabytes_by_slab


def grown(after: dict[str, float], before: dict[str, float], count: int) -> str:
    more = {name: value - before.get(name, 0.0) for name, value in after.items()}
    most = sorted(more, key=lambda name: -abs(more[name]))[:count]
    return ", ".join(f"{name} {more[name]:+.1f}" for name in most)


def main() -> None:
    chosen = parse(
        "local_networks",
        __doc__,
        Option("networks", 200, 2, "how many"),
        Option("former", False, False, "as release 0.1.0 made them"),
    )
    vifs = [vif(number) for number in range(chosen.networks)]
    idle, idle_processes = memory_mb(), of_processes()
    with Libvirtd(networks=True) as server:
        connection = libvirt.open(server.uri)
        host = of_this_host("", server.uri, server.proc_net)
        kernel, slab = kernel_mb(), slab_mb()
        begun = time.monotonic()
        for each_vif in vifs:
            connection.networkCreateXML(former_xml(each_vif) if chosen.former else network_xml(each_vif))
            if not chosen.former:
                host.ensure(network_of(each_vif, metadata=True))
                entry = host_of(each_vif, "web")
                assert entry is not None
                host.enter(each_vif.network_id, entry)
        made_seconds = time.monotonic() - begun
        memory, processes = memory_mb() - idle, of_processes()
        more = f"kernel MB: {grown(kernel_mb(), kernel, 5)}; slab MB: {grown(slab_mb(), slab, 12)}"
        begun = time.monotonic()
        assert host.broken() == {}
        proved = time.monotonic() - begun
        begun = time.monotonic()
        for each_vif in vifs:
            if not chosen.former:
                host.remove(each_vif.network_id)
            connection.networkLookupByName(network_name(each_vif.network_id)).destroy()
        removed = time.monotonic() - begun
        assert not (Path("/sys/class/net") / bridge_name(vifs[0].network_id)).exists()
        connection.close()
    print(f"made {made_seconds:.1f} s, dnsmasq {memory:.1f} MB, proved {proved:.2f} s, removed {removed:.1f} s")
    tables = processes[1] - idle_processes[1]
    print(f"{processes[0] - idle_processes[0]} dnsmasq processes, their page tables and stacks {tables:.1f} MB")
    print(more)


if __name__ == "__main__":
    main()
