"""Interfaces of a domain. Pure."""

from xml.etree import ElementTree as ET

from minova.errors import HardwareNotOffered, InterfaceNotOffered
from minova.objects.network.network import LOCAL
from minova.objects.network.vif import Vif, filter_name, network_name, tap_name
from minova.virt.libvirt.xml import device_xml
from minova.virt.libvirt.xml.guest import Guest


def interface(vif: Vif, guest: Guest) -> ET.Element:
    """Raises HardwareNotOffered if this host has no bridge of the interface's network."""
    settings = guest.settings
    if vif.from_neutron:
        return _neutron_interface(vif, guest)
    if vif.network_type == LOCAL:
        kind, source = "network", {"network": network_name(vif.network_id)}
    elif vif.segment in settings.lost_bridges:
        raise HardwareNotOffered(
            f"network {vif.network_id}: bridge {settings.bridges[vif.segment]} of [networks] bridge_mappings, which carries "
            f"{vif.segment}, is not there"
        )
    elif vif.segment in settings.bridges:
        kind, source = "bridge", {"bridge": settings.bridges[vif.segment]}
    else:
        raise HardwareNotOffered(
            f"network {vif.network_id}: this host has no bridge for {vif.segment} in [networks] bridge_mappings"
        )
    element = _link(vif, guest, kind, source)
    ET.SubElement(element, "filterref", filter=filter_name(vif.port_id))
    device_xml.limit_interface(element, guest.limits)
    return element


def _neutron_interface(vif: Vif, guest: Guest) -> ET.Element:
    """Returns the interface as Neutron has bound its port. An agent of Neutron filters its traffic.

    Raises InterfaceNotOffered if the binding has a type that minova does not plug.
    """
    bridge = vif.vif_details.get("bridge_name")
    if vif.vif_details.get("ovs_hybrid_plug"):
        raise InterfaceNotOffered(
            f"port {vif.port_id}: Neutron asks for a hybrid plug (firewall_driver iptables_hybrid), which is not there: use openvswitch"
        )
    if vif.vif_type == "ovs":
        element = _link(vif, guest, "bridge", {"bridge": str(bridge)})
        port = ET.SubElement(element, "virtualport", type="openvswitch")
        ET.SubElement(port, "parameters", interfaceid=vif.port_id)
    elif vif.vif_type == "bridge":
        element = _link(vif, guest, "bridge", {"bridge": str(bridge or f"brq{vif.network_id[:11]}")})
    elif vif.vif_type == "tap":
        element = _link(vif, guest, "ethernet", None)
    else:
        raise InterfaceNotOffered(
            f"port {vif.port_id}: Neutron has bound it as {vif.vif_type}; ovs, bridge and tap are there"
        )
    device_xml.limit_interface(element, guest.limits)
    return element


def _link(vif: Vif, guest: Guest, kind: str, source: dict[str, str] | None) -> ET.Element:
    element = ET.Element("interface", type=kind)
    ET.SubElement(element, "mac", address=vif.mac_address)
    if source is not None:
        ET.SubElement(element, "source", source)
    ET.SubElement(element, "target", dev=tap_name(vif.port_id))
    ET.SubElement(element, "model", type=guest.hardware.vif_model)
    driver = _interface_driver(guest)
    if driver:
        # QEMU serves the queues of an emulated guest; the kernel of the host serves those of a KVM guest.
        backend = {"name": "vhost"} if guest.by_kvm else {}
        ET.SubElement(element, "driver", {**backend, **driver})
    ET.SubElement(element, "mtu", size=str(vif.mtu))
    if not vif.admin_state_up:
        ET.SubElement(element, "link", state="down")
    return element


def _interface_driver(guest: Guest) -> dict[str, str]:
    if guest.hardware.vif_model != "virtio":
        return {}
    chosen = {
        "queues": str(guest.queues) if guest.queues > 1 else "",
        "rx_queue_size": str(guest.settings.rx_queue_size or ""),
        "tx_queue_size": str(guest.settings.tx_queue_size or ""),
        "packed": "on" if guest.features.packed_ring else "",
        # Also of an interface that is attached while the guest runs.
        "iommu": "on" if guest.features.encrypted_memory else "",
    }
    return {name: value for name, value in chosen.items() if value}
