"""Keys of flavors and images that have no effect without another key. Pure.

Nova accepts them and ignores them. A flavor or an image that asks for something that its guest would not get is refused here, with the key.
Limits and hints, which apply where there is something to limit, are accepted: `ONLY_WITH` names them and what they need, and
`docs/reference/guest-hardware.md` shows it.
"""

from collections.abc import Iterable, Mapping

from minova.hardware import errors
from minova.hardware.extra_specs import is_true
from minova.hardware.guest.features import FlavorAndImage

_MULTIQUEUE = "interfaces of model virtio, and two CPUs or more"
_HOSTS = (
    "`hw_architecture`, `img_hv_type` or `hw_vm_mode`: without one of them ImagePropertiesFilter does not look at it"
)
# {key: what it needs to have an effect}
ONLY_WITH = {
    **{f"hw:cpu_max_{part}": f"more {part} than that, by default or by `hw:cpu_{part}`" for part in ("cores", "threads")},
    **{f"hw_cpu_max_{part}": f"more {part} than that, by default or by `hw:cpu_{part}`" for part in ("cores", "threads")},
    **dict.fromkeys(("hw_rng:allowed", "hw_rng:rate_bytes"), "`hw_rng_model` of the image"),
    "hw_video:ram_max_mb": "`hw_video_ram` of the image",
    "hw:vif_multiqueue_enabled": _MULTIQUEUE,
    "hw_vif_multiqueue_enabled": _MULTIQUEUE,
    "hw_scsi_model": "a disk or CD drive on SCSI",
    "hw_maxphysaddr_bits": f"`hw_maxphysaddr_mode=emulate`, or {_HOSTS}",
    "img_hv_requested_version": _HOSTS,
    "hw_cpu_realtime_mask": "`hw:cpu_realtime` of the flavor",
    "hw_pci_numa_affinity_policy": "`pci_passthrough:alias` of the flavor",
}  # fmt: skip


def _require_partners_of_flavor(guest: FlavorAndImage) -> None:
    specs = guest.specs
    for key, is_there, partner in (
        ("hw:cpu_realtime_mask", is_true(specs.get("hw:cpu_realtime")), "hw:cpu_realtime"),
        ("hw:pci_numa_affinity_policy", bool(specs.get("pci_passthrough:alias")), "pci_passthrough:alias"),
        ("hw_rng:rate_period", bool(specs.get("hw_rng:rate_bytes")), "hw_rng:rate_bytes"),
    ):
        if specs.get(key) and not is_there:
            raise errors.Invalid(f"{key}={specs[key]} needs {partner}: without it, it has no effect")


def _require_virtio(guest: FlavorAndImage) -> None:
    model = guest.properties.get("hw_vif_model") or "virtio"
    if model != "virtio" and guest.features.packed_ring:
        raise errors.Invalid(
            f"hw_vif_model={model} of the image: hw:virtio_packed_ring needs interfaces of model virtio"
        )


def _require_nodes(guest: FlavorAndImage) -> None:
    cells = () if guest.numa_topology is None else guest.numa_topology.cells
    divisions = [
        *_numbered(guest.specs, ("hw:numa_cpus.", "hw:numa_mem.")),
        *_numbered(guest.properties, ("hw_numa_cpus.", "hw_numa_mem.")),
    ]
    for key, number in divisions:
        if not number.isdecimal() or int(number) >= len(cells):
            raise errors.Invalid(f"{key} needs NUMA node {number} of hw:numa_nodes: without it, it has no effect")


def _numbered(pairs: Mapping[str, str], prefixes: tuple[str, ...]) -> Iterable[tuple[str, str]]:
    for key in pairs:
        if key.startswith(prefixes):
            yield key, key.partition(".")[2]


# Each raises Invalid, which names the key, for a key whose partner is missing.
PARTNERS = (_require_partners_of_flavor, _require_virtio, _require_nodes)
