"""Sets the clocks of guests whose CPUs have stood still, by their agents. Without an agent the guest's own means, such as NTP, remain."""

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from xml.etree import ElementTree as ET

import libvirt

from minova.concurrency.daemon_pool import DaemonPool
from minova.errors import MinovaError

LOG = logging.getLogger(__name__)
# The agent of a guest that comes from saved memory needs a moment to be connected. A guest is not trusted: its agent may not answer.
TRIES, PAUSE, ANSWER_WITHIN = 30, 1.0, 5
# A guest that boots needs longer for that.
TRIES_OF_BOOT = 300
# Agents that libvirt waits for at the same time.
_THREADS = 4
Connect = Callable[[str, str], AbstractContextManager[Any]]


class GuestClocks:
    """`connect` returns a connection to libvirt, for a purpose and a guest. `now` returns seconds since 1970."""

    def __init__(
        self,
        connect: Connect,
        *,
        pause: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._connect = connect
        self._pause = pause
        self._now = now
        self._pool = DaemonPool("guest clock", _THREADS)
        # Its guests, which may have no agent, hold up no others.
        self._pool_of_boots = DaemonPool("guest clock after boot", _THREADS)

    def set_soon(self, domain: Any) -> None:
        """Set the clock in the background. Nothing that the agent does, or does not do, becomes an error or takes time here."""
        self._spawn(self._pool, domain, TRIES)

    def set_when_booted(self, domain: Any) -> None:
        """As `set_soon`, of a guest that has just been started."""
        self._spawn(self._pool_of_boots, domain, TRIES_OF_BOOT)

    def _spawn(self, pool: DaemonPool, domain: Any, tries: int) -> None:
        channels = ET.fromstring(domain.XMLDesc(0)).findall("devices/channel/target[@name='org.qemu.guest_agent.0']")
        if not channels:
            return
        try:
            pool.spawn(partial(self.set, domain.UUIDString(), tries))
        except RuntimeError as error:
            LOG.warning("The clock of instance %s is not set: %s", domain.UUIDString(), error)

    def set(self, instance_uuid: str, tries: int = TRIES) -> None:
        for _ in range(tries):
            try:
                if self._is_over(instance_uuid):
                    return
            except (libvirt.libvirtError, MinovaError) as error:
                LOG.info("The clock of instance %s is not set: %s", instance_uuid, error)
                return
            self._pause(PAUSE)
        LOG.debug("The clock of instance %s is not set: its agent does not answer", instance_uuid)

    def _is_over(self, instance_uuid: str) -> bool:
        """Sets the clock. Returns False if the agent does not answer now."""
        with self._connect("Setting the clock", instance_uuid) as connection:
            domain = connection.lookupByUUIDString(instance_uuid)
            domain.agentSetResponseTimeout(ANSWER_WITHIN, 0)
            now = self._now()
            try:
                domain.setTime({"seconds": int(now), "nseconds": int(now % 1 * 1e9)})
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_AGENT_UNRESPONSIVE:
                    return False
                raise
        LOG.info("The clock of instance %s was set to %.3f", instance_uuid, now)
        return True
