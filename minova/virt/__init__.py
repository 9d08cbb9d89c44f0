"""Hypervisor drivers. Only the configured driver is imported: a controller, or a fake host, has no libvirt."""

from oslo_config import cfg

from minova.errors import InvalidConfiguration
from minova.virt.driver import ComputeDriver


def load(conf: cfg.ConfigOpts) -> ComputeDriver:
    """Returns the driver that `compute_driver` names, not connected yet. Raises InvalidConfiguration if its library is
    missing.
    """
    # Nova's value includes the class name.
    if conf.compute_driver.partition(".")[0] == "fake":
        from minova.virt.fake import FakeDriver  # noqa: PLC0415

        return FakeDriver(conf)
    try:
        from minova.virt.libvirt.driver import LibvirtDriver  # noqa: PLC0415
    except ImportError as error:
        if error.name != "libvirt":
            raise
        raise InvalidConfiguration(
            "[DEFAULT] compute_driver = libvirt: libvirt-python is not installed: pip install minova[libvirt]"
        ) from error
    return LibvirtDriver(conf)
