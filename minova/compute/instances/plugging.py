"""Interfaces on networks of Neutron while a guest is built: its ports are bound to this host, then its agent wires them.

The agent sees an interface only when the domain has it, so the guest is started with its CPUs held. Neutron's event
`network-vif-plugged` is a hint to ask again; without one this host asks from time to time.
"""

import logging
import threading
import time
from collections.abc import Callable

import msgspec

from minova import errors
from minova.compute.conductor_retry import ConductorRetry
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.instance import Instance
from minova.objects.vif import UNBOUND, Vif

LOG = logging.getLogger(__name__)
# Seconds between two questions without an event.
POLL = 3.0
# Seconds in which each conductor is asked once or more, but for one that is not there. If all of them say that they have no Neutron, none has.
UNCONFIGURED = 20.0
# Seconds between looks whether the build is still wanted.
LOOK = 0.5


class Plugging:
    """Safe for threads. `timeout`: seconds that a guest waits for its wires; 0: none waits. `is_fatal`: a build fails without them."""

    def __init__(
        self,
        host: str,
        conductor: ConductorApi,
        *,
        timeout: float = 300.0,
        is_fatal: bool = True,
        clock: Callable[[], float] = time.monotonic,
        repeat: ConductorRetry | None = None,
        poll: float = POLL,
    ) -> None:
        self._host = host
        self._conductor = conductor
        self._timeout = timeout
        self._is_fatal = is_fatal
        self._clock = clock
        self._repeat = repeat or ConductorRetry()
        self._poll = poll
        self._lock = threading.Lock()
        self._waiting: dict[str, threading.Event] = {}

    def changed(self, instance_uuid: str) -> None:
        """Neutron has told of a change of its interfaces."""
        with self._lock:
            event = self._waiting.get(instance_uuid)
        if event is not None:
            event.set()

    def bound(
        self, ctx: RequestContext, instance: Instance, attempt: int, check: Callable[[], None] = lambda: None
    ) -> Instance:
        """With its interfaces as Neutron has bound them to this host. Raises as `bind_interfaces`, and what `check` raises, which is
        called before each try. NoNetworkService: no conductor is configured for Neutron.
        """
        if not any(vif.is_neutrons for vif in instance.network_info):
            return instance
        vifs = iter(self._bind(ctx, instance, attempt, check))
        # In their order, beside those of minova's own networks.
        known = [next(vifs, None) if vif.is_neutrons else vif for vif in instance.network_info]
        return msgspec.structs.replace(instance, network_info=(*(vif for vif in known if vif is not None), *vifs))

    def bound_if_lost(self, ctx: RequestContext, instance: Instance) -> Instance:
        """As `bound`, if Neutron has an interface that is bound to no host: a guest cannot be defined with it."""
        if all(not vif.is_neutrons or vif.vif_type not in UNBOUND for vif in instance.network_info):
            return instance
        return self.bound(ctx, instance, instance.attempt)

    def must_wait(self, instance: Instance) -> bool:
        """Whether its guest is not to run yet."""
        return self._timeout > 0 and not _are_wired(instance.network_info)

    def wait(self, ctx: RequestContext, instance: Instance, attempt: int, check: Callable[[], None]) -> None:
        """Until its interfaces are wired. `check` is called again and again; what that raises ends the wait.

        VirtualInterfaceCreateException: they are not in time, and that is fatal. StaleAttempt: it is built elsewhere now.
        """
        event = threading.Event()
        with self._lock:
            self._waiting[instance.uuid] = event
        try:
            self._wait(ctx, instance, attempt, check, event)
        finally:
            with self._lock:
                self._waiting.pop(instance.uuid, None)

    def _wait(
        self, ctx: RequestContext, instance: Instance, attempt: int, check: Callable[[], None], event: threading.Event
    ) -> None:
        until = self._clock() + self._timeout
        while True:
            event.clear()
            vifs = self._bind(ctx, instance, attempt, check)
            if _are_wired(vifs):
                return
            asked = self._clock()
            while self._clock() < min(asked + self._poll, until) and not event.wait(LOOK):
                check()
            if self._clock() >= until:
                self._give_up(instance, vifs)
                return

    def _give_up(self, instance: Instance, vifs: tuple[Vif, ...]) -> None:
        left = ", ".join(vif.port_id for vif in vifs if not _is_wired(vif))
        text = f"Neutron has not wired the ports {left} of instance {instance.uuid} within vif_plugging_timeout, {self._timeout:g} s"
        if self._is_fatal:
            raise errors.VirtualInterfaceCreateException(text)
        LOG.warning("%s: the guest runs without", text)

    def _bind(
        self, ctx: RequestContext, instance: Instance, attempt: int, check: Callable[[], None]
    ) -> tuple[Vif, ...]:
        since: float | None = None

        def ask() -> tuple[Vif, ...]:
            nonlocal since
            try:
                return self._ask(ctx, instance, attempt, check)
            except errors.NetworkNotConfigured as error:
                since = self._clock() if since is None else since
                if self._clock() - since >= UNCONFIGURED:
                    raise errors.NoNetworkService(f"No conductor has [neutron] backend = neutron: {error}") from None
                raise
            except errors.ServiceUnavailable:  # one may be configured
                since = None
                raise

        return self._repeat("bind_interfaces", ask)

    def _ask(self, ctx: RequestContext, instance: Instance, attempt: int, check: Callable[[], None]) -> tuple[Vif, ...]:
        # A server that is deleted while Neutron or the conductor is away is not to wait for them.
        check()
        return self._conductor.bind_interfaces(ctx, instance_uuid=instance.uuid, attempt=attempt, host=self._host)


def _is_wired(vif: Vif) -> bool:
    """A port that is down by its administrator stays so."""
    return not vif.is_neutrons or vif.active or not vif.admin_state_up


def _are_wired(vifs: tuple[Vif, ...]) -> bool:
    return all(_is_wired(vif) for vif in vifs)
