"""Calls of the API about images."""

from typing import Protocol

from minova.context import RequestContext
from minova.contracts.base import call
from minova.contracts.conductor.audiences import BY_API
from minova.objects.catalogue.image import Image, ImageMember, StoredImage


@BY_API
class ImagesApi(Protocol):
    @call(refused_when_disk_full=True)
    def create_image(self, ctx: RequestContext, *, image: Image) -> Image: ...

    @call
    def update_image(self, ctx: RequestContext, *, image: Image, expected_status: str) -> Image:
        """Replace the row if it has the expected status. Raises Conflict otherwise."""
        ...

    @call(since="1.7")
    def change_image(self, ctx: RequestContext, *, expected: Image, image: Image) -> Image:
        """Replace the record if it still equals the expected one. Raises ImageChanged otherwise. Its times of creation
        and change are not compared.
        """
        ...

    @call
    def delete_image(self, ctx: RequestContext, *, image_id: str) -> None: ...

    @call(since="1.7", refused_when_disk_full=True)
    def add_image_member(self, ctx: RequestContext, *, image_id: str, member_id: str) -> ImageMember:
        """Share the image with a project, which then still has to accept it. Raises Conflict if the image is shared
        with it already.
        """
        ...

    @call(since="1.7", refused_when_disk_full=True)
    def update_image_member(
        self, ctx: RequestContext, *, image_id: str, member_id: str, status: str
    ) -> ImageMember: ...

    @call(since="1.7")
    def remove_image_member(self, ctx: RequestContext, *, image_id: str, member_id: str) -> None: ...


@BY_API
class ImageReportsApi(Protocol):
    @call(since="1.8", in_safe_mode=True)
    def report_images(self, ctx: RequestContext, *, store: str, images: tuple[StoredImage, ...]) -> tuple[str, ...]:
        """All images of a store that the database does not know, or knows without their bytes. Returns those that an
        operator has decided to remove. Changes no image.

        Raises BadRequest if an image is not valid or there are too many. Raises DiskFull if there is no room.
        """
        ...
