"""The image that an instance boots from, as the image service describes it."""

from datetime import datetime

import msgspec

# Statuses in which a process writes the bytes of the image.
COMING = ("saving", "importing")


class BootFile(msgspec.Struct, frozen=True, kw_only=True):
    """An image whose file QEMU loads as it is: a kernel or a ramdisk. The fields are those of `Image`."""

    id: str
    size: int | None = None
    os_hash_algo: str | None = None
    os_hash_value: str | None = None

    def as_image(self) -> "Image":
        """QEMU loads the file as it is, whatever format the image service names (aki, ari)."""
        return Image(**msgspec.structs.asdict(self), disk_format="raw", container_format="bare")


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """`size` and `virtual_size` are bytes; `min_ram` is MB and `min_disk` GB, as in the Image API.

    `status` is Glance's: queued, saving, uploading, importing, active, deactivated. `os_hash_value`: the hex digest of
    the data by `os_hash_algo`. `reserved`: bytes for which the quota has room while they come, in a status of COMING.

    `kernel`, `ramdisk`: the images that the properties kernel_id and ramdisk_id name, in the image of a server.
    """

    id: str
    name: str | None = None
    status: str = "queued"
    disk_format: str | None = None
    container_format: str | None = None
    size: int | None = None
    virtual_size: int | None = None
    checksum: str | None = None
    os_hash_algo: str | None = None
    os_hash_value: str | None = None
    min_disk: int = 0
    min_ram: int = 0
    visibility: str = "shared"
    protected: bool = False
    os_hidden: bool = False
    owner: str | None = None
    tags: tuple[str, ...] = ()
    properties: dict[str, str] = {}
    created_at: datetime | None = None
    updated_at: datetime | None = None
    # "glance" for a record that only refers to an image that minova creates in Glance.
    service: str = ""
    reserved: int = 0
    kernel: BootFile | None = None
    ramdisk: BootFile | None = None

    @property
    def boot_files(self) -> tuple[BootFile, ...]:
        return tuple(each for each in (self.kernel, self.ramdisk) if each is not None)

    @property
    def files(self) -> tuple["Image", ...]:
        """The images with one file each: the kernel and the ramdisk, and then this image without them."""
        alone = msgspec.structs.replace(self, kernel=None, ramdisk=None)
        return (*(each.as_image() for each in self.boot_files), alone)


class ImageMember(msgspec.Struct, frozen=True, kw_only=True):
    """A project with which an image is shared. `status` is Glance's: pending, accepted, rejected."""

    image_id: str
    member_id: str
    status: str = "pending"
    created_at: datetime | None = None
    updated_at: datetime | None = None


class StoredImage(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes in the image store whose image the database does not know, or knows without bytes (`has_row`).

    `size`: in bytes. `image`: the record that is kept beside the bytes.
    """

    id: str
    size: int
    has_row: bool = False
    image: Image | None = None
