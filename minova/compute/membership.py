"""To which cloud this host belongs, and whether it may change anything. A conductor says so in its answers; what the host
has seen of its cloud is on its own disk, and no conductor's word replaces another cloud.
"""

import logging
from collections.abc import Callable

from minova import errors
from minova.objects.hosts.cloud import OTHER_CLOUD, CloudState, WitnessRecord
from minova.safe_mode import SafeMode
from minova.witness import Witness

LOG = logging.getLogger(__name__)
_CLOUD, _OTHER = "compute: cloud", "compute: another cloud"


class CloudMembership:
    """`learn`: gets the identity of the cloud when it is known.
    `ticks`: seconds, monotonic.
    """

    def __init__(
        self,
        safe_mode: SafeMode,
        witness: Witness,
        *,
        learn: Callable[[str], None] = lambda uuid: None,
        ticks: Callable[[], float],
    ) -> None:
        self._safe_mode = safe_mode
        self._witness = witness
        self._learn = learn
        self._ticks = ticks
        if witness.seen is not None:
            learn(witness.seen.uuid)

    @property
    def seen(self) -> WitnessRecord | None:
        """Returns what this host has seen of its cloud, for conductors to compare with their database."""
        return self._witness.seen

    def take(self, state: CloudState | None) -> bool:
        """Takes what a conductor has answered. None, from a conductor of release 0.1.0, changes nothing. Returns whether
        safe mode has just ended.
        """
        if state is None:
            return False
        record = self._witness.seen
        if record is not None and record.uuid != state.uuid:
            self._refuse(
                f"it belongs to the cloud {record.uuid}, and a conductor of the cloud {state.uuid} has answered"
            )
            return False
        if state.safe_mode is not None:
            self._safe_mode.hold(_CLOUD, state.safe_mode)
            self._safe_mode.release(_OTHER)
            return False
        self._witness.learn(state, self._ticks())
        self._learn(state.uuid)
        was_held = self._safe_mode.is_held(_CLOUD) or self._safe_mode.is_held(_OTHER)
        self._safe_mode.release(_CLOUD)
        self._safe_mode.release(_OTHER)
        return was_held

    def refused(self, error: errors.AnotherCloud) -> None:
        """A conductor of another cloud has received a message of this host."""
        self._refuse(str(error))

    def _refuse(self, details: str) -> None:
        self._safe_mode.hold(_OTHER, OTHER_CLOUD, f"{details}. Guests stay as they are. {self._witness.remedy}")
