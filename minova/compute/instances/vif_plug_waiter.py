"""Interfaces on networks of Neutron while a guest is built: Neutron binds the ports to this host, then its agent wires
them.

The agent sees an interface only when the domain has it, so the guest is started paused. Neutron's event
`network-vif-plugged` is a hint to query again; without an event this host polls.
"""

import logging
import threading
import time
from collections.abc import Callable

import msgspec

from minova import errors
from minova.compute.conductor_retry import ConductorRetry
from minova.concurrency.outside_waits import waiting
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.network.vif import UNBOUND, Vif
from minova.objects.servers.instance import Instance

LOG = logging.getLogger(__name__)
# Seconds between two polls without an event.
POLL = 3.0
# Seconds in which each running conductor gets at least one request. If all answers say that Neutron is not configured,
# no conductor has it.
UNCONFIGURED = 20.0
# Seconds between checks whether the build is still wanted.
LOOK = 0.5
# What a guest waits for (`outside_waits`).
NETWORK_SERVICE = "the network service"


class VifPlugWaiter:
    """Safe for threads. `timeout` is how many seconds a guest waits for its interfaces to be wired; 0: no guest waits.
    `is_fatal`: a build fails if they are not wired in time.
    """

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
        """Wake a build that waits, because Neutron reported a change of its interfaces."""
        with self._lock:
            event = self._waiting.get(instance_uuid)
        if event is not None:
            event.set()

    def bound(
        self, ctx: RequestContext, instance: Instance, attempt: int, check: Callable[[], None] = lambda: None
    ) -> Instance:
        """Returns the instance with its interfaces as Neutron has bound them to this host. `check` is called before
        each try.

        Raises the errors of `bind_interfaces` and of `check`, and NoNetworkService if no conductor is configured for
        Neutron.
        """
        if not any(vif.from_neutron for vif in instance.network_info):
            return instance
        vifs = iter(self._bind(ctx, instance, attempt, check))
        # Keep the order of the interfaces, including those of minova's own networks.
        ordered_vifs = [next(vifs, None) if vif.from_neutron else vif for vif in instance.network_info]
        return msgspec.structs.replace(
            instance, network_info=(*(vif for vif in ordered_vifs if vif is not None), *vifs)
        )

    def bound_if_lost(self, ctx: RequestContext, instance: Instance) -> Instance:
        """As `bound` if an interface of Neutron is bound to no host, because a guest cannot be defined with it. Else
        returns the instance unchanged.
        """
        if all(not vif.from_neutron or vif.vif_type not in UNBOUND for vif in instance.network_info):
            return instance
        return self.bound(ctx, instance, instance.attempt)

    def must_wait(self, instance: Instance) -> bool:
        """Whether the guest must not run yet."""
        return self._timeout > 0 and not _are_wired(instance.network_info)

    def wait(self, ctx: RequestContext, instance: Instance, attempt: int, check: Callable[[], None]) -> None:
        """Wait until the interfaces are wired. `check` is called repeatedly; an exception of it ends the wait.

        Raises VirtualInterfaceCreateException if they are not wired in time and `is_fatal` is set, StaleAttempt if the
        instance is now built elsewhere.
        """
        event = threading.Event()
        with self._lock:
            self._waiting[instance.uuid] = event
        try:
            with waiting(NETWORK_SERVICE):
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
            polled_at = self._clock()
            while self._clock() < min(polled_at + self._poll, until) and not event.wait(LOOK):
                check()
            if self._clock() >= until:
                self._give_up(instance, vifs)
                return

    def _give_up(self, instance: Instance, vifs: tuple[Vif, ...]) -> None:
        unwired_ports = ", ".join(vif.port_id for vif in vifs if not _is_wired(vif))
        text = f"Neutron has not wired the ports {unwired_ports} of instance {instance.uuid} within vif_plugging_timeout, {self._timeout:g} s"
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
            except errors.ServiceUnavailable:  # a conductor that is away may be configured for Neutron
                since = None
                raise

        with waiting(NETWORK_SERVICE):
            return self._repeat("bind_interfaces", ask)

    def _ask(self, ctx: RequestContext, instance: Instance, attempt: int, check: Callable[[], None]) -> tuple[Vif, ...]:
        # A server that is deleted while Neutron or the conductor is away must not wait for them.
        check()
        return self._conductor.bind_interfaces(ctx, instance_uuid=instance.uuid, attempt=attempt, host=self._host)


def _is_wired(vif: Vif) -> bool:
    """Whether the interface needs no more wiring. A port that its administrator has set down stays down."""
    return not vif.from_neutron or vif.active or not vif.admin_state_up


def _are_wired(vifs: tuple[Vif, ...]) -> bool:
    return all(_is_wired(vif) for vif in vifs)
