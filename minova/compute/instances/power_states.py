"""Sends power states to the conductor: many domain events, few messages."""

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial

from minova import errors
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.actions.guest_changes import FAULTS, LastAction
from minova.objects.actions.power_rules import RowStates, differs
from minova.objects.guests.guest_states import GuestState
from minova.objects.servers.states import PowerState

LOG = logging.getLogger(__name__)


class PowerStates:
    """The newest state of each instance that changed. `changed` is called from the driver's own thread.

    `now` reads the state of a guest, with its reason, from the hypervisor.
    """

    def __init__(self, host: str, conductor: ConductorApi, now: Callable[[str], GuestState | None]) -> None:
        self._host = host
        self._now = now
        self._conductor = conductor
        self._waiting: dict[str, PowerState] = {}
        self._held: set[str] = set()
        self._lock = threading.Lock()
        self._sending = threading.Lock()

    def changed(self, instance_uuid: str, state: PowerState) -> None:
        with self._lock:
            if instance_uuid not in self._held:
                self._waiting[instance_uuid] = state

    def hold(self, instance_uuid: str) -> None:
        """Report no state of this instance until `release`: its guest is about to be started, and the report that it is off
        would stop the instance.
        """
        with self._lock:
            self._held.add(instance_uuid)
            self._waiting.pop(instance_uuid, None)

    def release(self, instance_uuid: str) -> None:
        """Report the instance's state again, beginning with the state of now."""
        with self._lock:
            self._held.discard(instance_uuid)
        state = self._now(instance_uuid)
        if state is not None:
            self.changed(instance_uuid, state.power_state)

    def compare(self, in_rows: Mapping[str, RowStates], now: Callable[[str], PowerState | None]) -> None:
        """Queue the states of instances that still differ from their rows. `in_rows` comes from an observation that may
        be older than the rows, so the hypervisor is asked again first.
        """
        for instance_uuid, in_row in in_rows.items():
            state = now(instance_uuid) or PowerState.NOSTATE
            if differs(in_row, state):
                self.changed(instance_uuid, state)

    def finish_sending(self) -> None:
        """Wait until no message is being sent."""
        with self._sending:
            pass

    def send(self, ctx: RequestContext) -> None:
        """Send all waiting states in one message, or no message if none waits. States that cannot be delivered keep
        waiting.
        """
        with self._sending:
            self._send(ctx)

    def _send(self, ctx: RequestContext) -> None:
        with self._lock:
            states, self._waiting = self._waiting, {}
        if not states:
            return
        try:
            settled = {uuid: self._settled(uuid, state) for uuid, state in states.items()}
            states = {uuid: state.power_state for uuid, state in settled.items()}
            self._report(ctx, settled)
        except BaseException:
            with self._lock:
                self._waiting = {**states, **self._waiting}
            raise

    def _report(self, ctx: RequestContext, settled: Mapping[str, GuestState]) -> None:
        last = self._call(ctx, settled, {})
        if last:
            # These instances would change. Their guests may have changed again before this answer, by an action.
            again = {uuid: self._settled(uuid, settled[uuid].power_state) for uuid in last if self._may_report(uuid)}
            changed_since = self._call(ctx, again, {uuid: last[uuid] for uuid in again}) if again else {}
            with self._lock:
                for uuid in changed_since.keys() - self._held:
                    self._waiting.setdefault(uuid, again[uuid].power_state)
        for uuid, state in settled.items():
            if state.reason in FAULTS:
                LOG.info(
                    "The guest of instance %s is in power state %s: %s", uuid, state.power_state.name, state.detail
                )

    def _call(
        self, ctx: RequestContext, settled: Mapping[str, GuestState], after: dict[str, LastAction]
    ) -> dict[str, LastAction]:
        """`after`, and what is returned: see `report_power_states`."""
        states = {uuid: int(state.power_state) for uuid, state in settled.items()}
        reasons = {uuid: state.reason.value for uuid, state in settled.items() if state.reason} or None
        report = partial(self._conductor.report_power_states, ctx, host=self._host, states=states)
        try:
            return report(reasons=reasons, after=after) or {}
        except errors.PeerTooOld:  # during an upgrade
            pass
        try:
            report(reasons=reasons)
        except errors.PeerTooOld:
            report()
        return {}

    def _may_report(self, instance_uuid: str) -> bool:
        with self._lock:
            return instance_uuid not in self._held

    def _settled(self, instance_uuid: str, state: PowerState) -> GuestState:
        """Returns the state to report. It is read again just before the report, because it may change what its instance is:
        a guest that is off stops its instance, and one that runs is not shelved.
        """
        return self._now(instance_uuid) or GuestState(state)
