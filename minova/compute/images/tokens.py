"""Credentials for downloads from the image service: the password of `[glance]`, or tokens of the builds that wait for
the image.

minova's own Image API needs no password: a conductor signs a token for one image and sends it with the build. The token
is valid for minutes.
"""

import logging
from collections.abc import Callable, Iterator, Sequence

from minova import errors

LOG = logging.getLogger(__name__)


class ImageToken:
    """The token of one build for its image. `renew` requests a fresh token from a conductor. `other` makes a token for another image of
    the same build, by its ID.
    """

    def __init__(
        self, value: str | None, renew: Callable[[], str], other: "Callable[[str], ImageToken] | None" = None
    ) -> None:
        self.value = value
        self._renew = renew
        self._other = other

    @classmethod
    def of_build(cls, renew: Callable[[str], str], image_id: str, value: str | None = None) -> "ImageToken":
        """`renew` requests a fresh token for the image with this ID."""
        return cls(value, lambda: renew(image_id), lambda other: cls.of_build(renew, other))

    def for_image(self, image_id: str) -> "ImageToken | None":
        return None if self._other is None else self._other(image_id)

    def fresh(self) -> None:
        """Fetches a fresh token. Raises the errors of the conductor."""
        self.value = self._renew()

    def renewed(self) -> str | None:
        """Fetches and returns a fresh token. Logs it and returns None if the conductors do not give one."""
        try:
            self.value = self._renew()
        except errors.MinovaError as error:
            LOG.warning("No fresh token for an image: %s", error)
            return None
        return self.value


def tokens_to_try(waiting: Callable[[], Sequence[ImageToken]]) -> Iterator[str]:
    """Yields tokens to try while the image service refuses: the newest token that a build has, then the first fresh
    token that a build gets.

    `waiting` returns the tokens of the builds that wait now.
    """
    yield from [token.value for token in waiting() if token.value is not None][-1:]
    # A build may have been given up meanwhile and gets no token; another build may have come.
    renewed_token = next((value for token in waiting() if (value := token.renewed()) is not None), None)
    if renewed_token is not None:
        yield renewed_token
