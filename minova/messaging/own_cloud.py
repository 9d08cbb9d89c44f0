"""The cloud that this process belongs to. Messages of other clouds are refused."""

import logging

from minova import errors

LOG = logging.getLogger(__name__)

# The first message of each other cloud is logged, for at most so many clouds. A sender chooses the identity that its messages name.
MOST_CLOUDS_LOGGED = 16


class OwnCloud:
    """The identity of the cloud that this process belongs to; None until it is known."""

    def __init__(self) -> None:
        self.uuid: str | None = None
        self._met: set[str] = set()

    def learn(self, uuid: str) -> None:
        """Sets the identity, unless it is known already."""
        self.uuid = self.uuid or uuid

    def require(self, sender: str | None) -> None:
        """Raises AnotherCloud if the sender of a message belongs to another cloud; logs the first message of each, of
        the first `MOST_CLOUDS_LOGGED` other clouds.
        """
        if sender is None or self.uuid is None or sender == self.uuid:
            return
        reason = (
            f"The message is of the cloud {sender}, and this service of the cloud {self.uuid}: both use one virtual host of the "
            "message broker, and each needs its own. See docs/operators/broker.md"
        )
        if sender not in self._met and len(self._met) < MOST_CLOUDS_LOGGED:
            self._met.add(sender)
            LOG.error("%s", reason)
        raise errors.AnotherCloud(reason)
