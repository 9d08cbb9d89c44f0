"""Power states on their way to the conductor: many domain events, few messages."""

import threading
from collections.abc import Callable, Mapping

from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.power_rules import OFF
from minova.objects.states import PowerState


class PowerStates:
    """The newest state of each instance that changed. `changed` is called from the driver's own thread.

    `now` asks the hypervisor for the state of a domain.
    """

    def __init__(self, host: str, conductor: ConductorApi, now: Callable[[str], PowerState | None]) -> None:
        self._host = host
        self._now = now
        self._conductor = conductor
        self._waiting: dict[str, PowerState] = {}
        self._lock = threading.Lock()
        self._sending = threading.Lock()

    def changed(self, instance_uuid: str, state: PowerState) -> None:
        with self._lock:
            self._waiting[instance_uuid] = state

    def compare(self, in_rows: Mapping[str, PowerState], now: Callable[[str], PowerState | None]) -> None:
        """Of instances that seemed to be in another state than their rows say: what was seen is older than the rows, so
        ask again before anything is said.
        """
        for instance_uuid, in_row in in_rows.items():
            state = now(instance_uuid) or PowerState.NOSTATE
            if state != in_row:
                self.changed(instance_uuid, state)

    def finish_sending(self) -> None:
        """Wait until no message is under way."""
        with self._sending:
            pass

    def send(self, ctx: RequestContext) -> None:
        """One message with all that waits, none when nothing does; what cannot be delivered waits on."""
        with self._sending:
            self._send(ctx)

    def _send(self, ctx: RequestContext) -> None:
        with self._lock:
            states, self._waiting = self._waiting, {}
        if not states:
            return
        try:
            states = {uuid: self._settled(uuid, state) for uuid, state in states.items()}
            self._conductor.report_power_states(
                ctx, host=self._host, states={uuid: int(state) for uuid, state in states.items()}
            )
        except BaseException:
            with self._lock:
                self._waiting = {**states, **self._waiting}
            raise

    def _settled(self, instance_uuid: str, state: PowerState) -> PowerState:
        """A guest that seems to be off stops its instance: that it is not on again is asked just before."""
        return (self._now(instance_uuid) or state) if state in OFF else state
