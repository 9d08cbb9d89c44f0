"""The arguments of `run_action` of the compute's contract. Pure."""

import msgspec

from minova.objects.catalogue.image import Image
from minova.objects.requests.build_extras import GuestFile


class HostArguments(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The arguments that the host of a server action gets beside the instance. Each action uses only a few of the fields.

    `image`: the queued image that the action writes; of an offload the image that has the server's disk.
    `rotation`: of a backup; the conductor removes the older ones.
    `rescue_image`: the image to rescue with; None: the instance's own.
    `admin_password`, `injected_files`, `availability_zone`: for the config drive of a rebuilt guest. `change_password`
    sets `admin_password`.
    `port_id`: of the interface to attach or detach, which is in the instance's `network_info`.
    """

    image: Image | None = None
    rotation: int | None = None
    rescue_image: Image | None = None
    admin_password: str | None = None
    injected_files: tuple[GuestFile, ...] = ()
    availability_zone: str = ""
    port_id: str = ""

    def __repr__(self) -> str:
        """Passwords and files are secret, so a log shows none of the values."""
        return f"{type(self).__name__}({', '.join(name for name in self.__struct_fields__ if getattr(self, name))})"

    @property
    def image_id(self) -> str | None:
        """The id of the image that the action makes, or rescues with."""
        image = self.image or self.rescue_image
        return None if image is None else image.id
