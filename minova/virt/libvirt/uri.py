"""Which libvirtd is the one of a host. Processes ask here that need no libvirt."""

from oslo_config import cfg

SYSTEM_URI = "qemu:///system"
_URIS = {"test": "test:///default"}


def uri_of(conf: cfg.ConfigOpts) -> str:
    """Returns the URI of libvirt."""
    return str(conf.libvirt.connection_uri or _URIS.get(conf.libvirt.virt_type, SYSTEM_URI))
