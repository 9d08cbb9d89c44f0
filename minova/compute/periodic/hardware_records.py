"""Records which hardware was chosen for the guests of this host, where no record is there yet: of new guests, and of those that
an older release has built.
"""

from collections.abc import Iterable

from minova import errors
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.servers.chosen_hardware import MACHINE_TYPE
from minova.objects.servers.instance import Instance
from minova.virt.driver.domains import DomainDriver


class HardwareRecords:
    def __init__(self, host: str, driver: DomainDriver, conductor: ConductorApi) -> None:
        self._host = host
        self._driver = driver
        self._conductor = conductor

    def complete(self, ctx: RequestContext, instances: Iterable[Instance]) -> None:
        """Raises ServiceUnavailable, and the errors of the driver."""
        missing = [
            instance.uuid
            for instance in instances
            if instance.task_state is None and MACHINE_TYPE not in instance.system_metadata
        ]
        chosen = self._driver.chosen_hardware(missing) if missing else {}
        if not chosen:
            return
        try:
            self._conductor.record_hardware(ctx, host=self._host, chosen=chosen)
        except errors.PeerTooOld:  # during an upgrade
            return
