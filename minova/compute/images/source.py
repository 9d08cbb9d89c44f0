"""The contract of a compute's source of images."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from minova.compute.images.tokens import ImageToken
from minova.objects.catalogue.image import Image

# Writes bytes to a path, and repeatedly calls the check, whose exceptions end the work.
CopyWriter = Callable[[Path, Callable[[], None]], None]


class ImageSource(Protocol):
    """The source of base images."""

    def is_cached(self, image: Image) -> bool:
        """Whether `fetch` will most likely find the image in the cache."""
        ...

    def keep(self, image: Image) -> bool:
        """Keeps the image in the cache as long as one that was fetched now. Returns False if it is not there."""
        ...

    def require_there(self, image: Image, token: ImageToken | None = ...) -> None:
        """Asks the image service for the image, and reads only the beginning of the answer. Raises ImageUnacceptable if it does not
        have the bytes, ServiceUnavailable if it does not answer.
        """
        ...

    def fetch(self, image: Image, check: Callable[[], None] = ..., token: ImageToken | None = ...) -> Path:
        """Returns the file of the checked image. Raises ImageUnacceptable, DiskFull or ServiceUnavailable if it cannot
        be had, ImageWithheld if the image service does not have it any more.

        While it waits it calls `check` repeatedly; an exception of `check` ends the wait. `token` is used for a
        download.
        """
        ...

    def take_copy(self, image: Image, size: int, write: CopyWriter, check: Callable[[], None]) -> Path:
        """Returns the file of the checked image, for one that another host has, with this size. Calls `write` with a path, at which it
        writes the bytes, unless the image is here. Raises ImageUnacceptable if they are others, DiskFull, and the errors of `write`.

        While it waits for another copy or download of the image, it calls `check` as `fetch`, and `write` calls the check that it is
        given.
        """
        ...
