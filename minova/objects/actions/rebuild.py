"""The changes of a server by a rebuild, and what its host gets. Pure."""

from typing import Any

import msgspec

from minova.objects.catalogue.image import Image


class RebuiltServer(msgspec.Struct, frozen=True, kw_only=True):
    """A checked request. `changes`: new values of further columns of the instance, such as `display_name`.

    `files` and `admin_password`: for its config drive.
    """

    image: Image
    changes: dict[str, Any] = {}
    files: tuple[dict[str, str], ...] = ()
    admin_password: str | None = None
