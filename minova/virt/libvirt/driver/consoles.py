"""The consoles of guests, and their logs."""

from oslo_utils import units

from minova import errors
from minova.objects.guests.console import ConsoleAddress, ConsoleType, unavailable
from minova.virt.driver.consoles import last_lines
from minova.virt.libvirt.consoles import port_of
from minova.virt.libvirt.driver.base import LibvirtBase
from minova.virt.libvirt.host import require
from minova.virt.libvirt.xml.mark import domain_name


class LibvirtConsoles(LibvirtBase):
    def console(self, instance_uuid: str, console_type: ConsoleType) -> ConsoleAddress:
        with self._host.connection("Reading the console", domain_name(instance_uuid)) as connection:
            domain = require(connection, instance_uuid)
            if not domain.isActive():
                raise errors.Conflict(f"Instance {instance_uuid} does not run.")
            port = port_of(domain.XMLDesc(0), console_type)
        if port is None:
            raise unavailable(console_type)
        if console_type is ConsoleType.SERIAL:
            return ConsoleAddress(host=str(self._conf.serial_console.proxyclient_address), port=port)
        return ConsoleAddress(host=str(self._conf.vnc.server_proxyclient_address), port=port)

    def console_output(self, instance_uuid: str, tail_length: int | None) -> str:
        with self._host.connection("Reading the console", domain_name(instance_uuid)) as connection:
            require(connection, instance_uuid)
        return last_lines(self._disks.console_output(instance_uuid), tail_length)

    def bound_console_logs(self) -> None:
        if self._real:
            self._disks.bound_console_logs(self._ready().host, self._conf.libvirt.console_log_max_kb * units.Ki)
