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
]
