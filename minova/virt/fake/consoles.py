"""Consoles that nothing serves, with the lines that fake guests print."""

from oslo_config import cfg

from minova import errors
from minova.objects.guests.console import ConsoleAddress, ConsoleType, unavailable
from minova.objects.servers.states import PowerState
from minova.virt.driver.consoles import last_lines
from minova.virt.fake.records import FakeRecords

# The port of the Discard protocol. Tests set that of a server.
CONSOLE_PORT = 9


class FakeConsoles(FakeRecords):
    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._address = str(conf.vnc.server_proxyclient_address)
        self._consoles = {ConsoleType.NOVNC: conf.vnc.enabled, ConsoleType.SERIAL: conf.serial_console.enabled}

    def console(self, instance_uuid: str, console_type: ConsoleType) -> ConsoleAddress:
        """Returns, for an enabled type, an address at which nothing of minova listens."""
        with self._lock:
            self._begin("console")
            domain = self._domain(instance_uuid)
        if not self._consoles[console_type]:
            raise unavailable(console_type)
        if domain.power_state is not PowerState.RUNNING:
            raise errors.Conflict(f"Instance {instance_uuid} does not run.")
        return ConsoleAddress(host=self._address, port=CONSOLE_PORT)

    def console_output(self, instance_uuid: str, tail_length: int | None) -> str:
        with self._lock:
            self._begin("console_output")
            return last_lines(self._domain(instance_uuid).console, tail_length)

    def bound_console_logs(self) -> None:
        """Does nothing: fake guests print only LINES_OF_A_START lines at each start."""
