"""Power states of domains: Nova's names for libvirt's states and events, and the ways to run a domain and to end it."""

from typing import Any

import libvirt

from minova.objects.servers.states import PowerState

# As in Nova, a domain that is blocked or shutting down still counts as running.
_STATES = {
    libvirt.VIR_DOMAIN_NOSTATE: PowerState.NOSTATE,
    libvirt.VIR_DOMAIN_RUNNING: PowerState.RUNNING,
    libvirt.VIR_DOMAIN_BLOCKED: PowerState.RUNNING,
    libvirt.VIR_DOMAIN_PAUSED: PowerState.PAUSED,
    libvirt.VIR_DOMAIN_SHUTDOWN: PowerState.RUNNING,
    libvirt.VIR_DOMAIN_SHUTOFF: PowerState.SHUTDOWN,
    libvirt.VIR_DOMAIN_CRASHED: PowerState.CRASHED,
    libvirt.VIR_DOMAIN_PMSUSPENDED: PowerState.SUSPENDED,
}
_EVENTS = {
    libvirt.VIR_DOMAIN_EVENT_STARTED: PowerState.RUNNING,
    libvirt.VIR_DOMAIN_EVENT_RESUMED: PowerState.RUNNING,
    libvirt.VIR_DOMAIN_EVENT_SUSPENDED: PowerState.PAUSED,
    libvirt.VIR_DOMAIN_EVENT_PMSUSPENDED: PowerState.SUSPENDED,
    libvirt.VIR_DOMAIN_EVENT_STOPPED: PowerState.SHUTDOWN,
    libvirt.VIR_DOMAIN_EVENT_CRASHED: PowerState.CRASHED,
}


def state_of(state: int) -> PowerState:
    """Returns the power state of a virDomainState."""
    return _STATES.get(state, PowerState.NOSTATE)


def state_after(event: int, detail: int) -> PowerState | None:
    """Returns the state to which a lifecycle event leads; None for events that change no state."""
    if (event, detail) == (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED):
        return PowerState.CRASHED
    return _EVENTS.get(event)


def runs(domain: Any) -> bool:
    """Whether the guest runs. The CPUs of one that was paused, or sleeps, go on."""
    state = domain.state()[0]
    if state == libvirt.VIR_DOMAIN_PAUSED:
        domain.resume()
    elif state == libvirt.VIR_DOMAIN_PMSUSPENDED:
        domain.pMWakeup(0)
    return state_of(state) in {PowerState.RUNNING, PowerState.PAUSED, PowerState.SUSPENDED}


def end(domain: Any) -> None:
    """Destroy the domain if it runs. It may end by itself meanwhile."""
    if not domain.isActive():
        return
    try:
        domain.destroy()
    except libvirt.libvirtError:
        if domain.isActive():
            raise
