"""Guests that stand still, or have crashed: counts them, and lets those go on whose disk was full, once there is space."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from oslo_config import cfg

from minova import metrics
from minova.backoff import Backoff
from minova.compute.instances.background import Background
from minova.compute.instances.domains import Domains
from minova.compute.tracker.nodes import Nodes
from minova.context import service_context
from minova.objects.actions.guest_changes import FAULTS
from minova.objects.guests.guest_states import SHOULD_RUN, STANDING, GuestReason, GuestState
from minova.virt.driver.power import PowerDriver

LOG = logging.getLogger(__name__)
# Seconds between tries to let one guest go on that stands still again each time.
BACKOFF = Backoff(first=5.0, longest=300.0)


class _Tries(NamedTuple):
    number: int
    last_at: float


class GuestsInTrouble:
    """`clock` returns monotonic seconds."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        driver: PowerDriver,
        nodes: Nodes,
        domains: Domains,
        background: Background,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._conf = conf
        self._driver = driver
        self._nodes = nodes
        self._domains = domains
        self._background = background
        self._clock = clock
        self._tries: dict[str, _Tries] = {}

    def check(self) -> None:
        troubled_guests = {
            uuid: state for uuid, state in self._driver.guests_in_trouble().items() if self._is_trouble(uuid, state)
        }
        counted = Counter(state.reason for state in troubled_guests.values())
        for reason in FAULTS:
            metrics.GUESTS_IN_TROUBLE.labels(reason.value).set(counted[reason])
        self._let_go_on(troubled_guests)

    def _is_trouble(self, instance_uuid: str, state: GuestState) -> bool:
        """Returns False for a guest whose user has paused it."""
        return state.power_state not in STANDING or self._should_run(instance_uuid)

    def _should_run(self, instance_uuid: str) -> bool:
        instances = (tracker.holds(instance_uuid) for tracker in self._nodes.trackers())
        return any(
            instance is not None and instance.vm_state in SHOULD_RUN and instance.task_state is None
            for instance in instances
        )

    def _let_go_on(self, troubled_guests: Mapping[str, GuestState]) -> None:
        self._tries = {uuid: tries for uuid, tries in self._tries.items() if uuid in troubled_guests}
        if not self._conf.resume_guests_when_disk_has_space:
            return
        for uuid, state in troubled_guests.items():
            tries = self._tries.get(uuid, _Tries(0, float("-inf")))
            if state.reason is GuestReason.DISK_FULL and self._clock() >= tries.last_at + BACKOFF.pause(tries.number):
                self._background.run(service_context(), ("go on", uuid), partial(self._go_on, uuid))

    def _go_on(self, instance_uuid: str) -> None:
        with self._domains.locked(instance_uuid):
            # Meanwhile an action may have paused it.
            if self._should_run(instance_uuid) and self._driver.go_on(instance_uuid):
                LOG.info("The guest of instance %s goes on: there is space for its disk again", instance_uuid)
                tries = self._tries.get(instance_uuid)
                self._tries[instance_uuid] = _Tries(tries.number + 1 if tries else 1, self._clock())
