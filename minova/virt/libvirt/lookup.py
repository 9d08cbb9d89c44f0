"""Domains by the UUID of their instance. libvirt's other errors pass."""

from typing import Any

import libvirt

from minova import errors


def lookup(connection: Any, instance_uuid: str) -> Any:
    """None: there is none."""
    try:
        return connection.lookupByUUIDString(instance_uuid)
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise


def require(connection: Any, instance_uuid: str) -> Any:
    """NotFound: there is none."""
    domain = lookup(connection, instance_uuid)
    if domain is None:
        raise errors.NotFound(f"Instance {instance_uuid} has no domain on this host")
    return domain


def exists(domain: Any) -> bool:
    try:
        domain.state()
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return False
        raise
    return True
