"""Options of PCI devices, in Nova's group [pci]."""

from oslo_config import cfg

GROUP = "pci"

OPTS: list[cfg.Opt] = [
    cfg.MultiStrOpt(
        "alias",
        default=[],
        deprecated_name="pci_alias",
        deprecated_group="DEFAULT",
        help='A name for a kind of device, as JSON: {"name": "qat", "vendor_id": "8086", "product_id": "0443", '
        '"device_type": "type-PCI", "numa_policy": "legacy"}. Flavors ask for it with pci_passthrough:alias=qat:1. '
        "May be given more than once; of texts with the same name any will do.",
    ),
    cfg.MultiStrOpt(
        "device_spec",
        default=[],
        deprecated_name="passthrough_whitelist",
        help='PCI devices of this host that instances may have, as JSON: {"vendor_id": "8086", "product_id": "154c", '
        '"address": "*:0a:00.*", "physical_network": "net1"}; address or devname choose them, other keys become tags. '
        "May be given more than once; the first that matches a device counts.",
    ),
]
