"""Maps libvirt's states and events of domains to Nova's power states."""

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
