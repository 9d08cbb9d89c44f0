"""The image of a server that moves comes from the image service, or from the source if that has it no more."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from minova import errors
from minova.compute.images.source import CopyWriter
from minova.compute.images.tokens import ImageToken
from minova.compute.moves.phases import MoveImages, require_served
from minova.objects.catalogue.image import BootFile, Image
from minova.objects.servers.disk_export import DiskExport, ExportedFile, TransferKey
from minova.objects.servers.instance import Instance
from tests.fakes.computes import CTX, FLAVOR, HOST, FakeImages

KEY = TransferKey(identity="move", secret="00")
ROOT, KERNEL = "a" * 64, "b" * 64
WITH_KERNEL = Image(id="i", status="active", os_hash_value=ROOT, kernel=BootFile(id="k", os_hash_value=KERNEL))
PLAIN = Image(id="i", status="active", os_hash_value=ROOT)
GONE = errors.ImageWithheld("not at the image service")
BOTH = ("i", "k")


class Cache(FakeImages):
    """An image service that does not give the images with these ids any more, or fails otherwise."""

    def __init__(self, gone: tuple[str, ...] = (), refuse: Exception | None = None) -> None:
        super().__init__()
        self._gone, self.refuse = gone, refuse

    def fetch(self, image: Image, check: Callable[[], None] = lambda: None, token: ImageToken | None = None) -> Path:
        if image.id in self._gone:
            raise GONE
        return super().fetch(image, check, token).with_name(image.os_hash_value or "")

    def take_copy(self, image: Image, size: int, write: CopyWriter, check: Callable[[], None]) -> Path:
        return super().take_copy(image, size, write, check).with_name(image.os_hash_value or "")


class Source:
    """A driver of the destination, which notes what it fetches from the source."""

    def __init__(self) -> None:
        self.fetched: list[str] = []

    def needs_image(self) -> bool:
        return True

    def fetch_image(self, path: Path, export: DiskExport, file: ExportedFile, *_: object) -> None:
        self.fetched.append(file.name)


def images(source: Source, cache: FakeImages) -> MoveImages:
    nothing: Any = None
    driver: Any = source
    return MoveImages(HOST, driver, nothing, cache)


def export(*digests: str, based: bool | None = True) -> DiskExport:
    served = tuple(ExportedFile(name=digest, export=digest, size=5) for digest in digests)
    return DiskExport(host="hv1", attempt=1, based=based, images=served)


def guest(image: Image) -> Instance:
    return Instance(uuid="u", display_name="u", flavor=FLAVOR, image=image)


def fetch(
    image: Image, served: DiskExport, gone: tuple[str, ...] = BOTH, refuse: Exception | None = None
) -> tuple[Path | None, list[str]]:
    source, check = Source(), cast("Any", None)
    path = images(source, Cache(gone, refuse)).fetch_here(CTX, guest(image), served, KEY, check)
    return path, source.fetched


def test_what_the_image_service_has_is_not_asked_of_the_source() -> None:
    assert fetch(WITH_KERNEL, export(ROOT, KERNEL), gone=()) == (Path(f"/{ROOT}"), [])


@pytest.mark.parametrize(
    ("image", "served", "fetched"),
    [
        (PLAIN, export(ROOT), [ROOT]),
        (WITH_KERNEL, export(KERNEL, ROOT), [KERNEL, ROOT]),
        # Its disk is a copy of the image.
        (PLAIN, export(based=False), []),
        (WITH_KERNEL, export(KERNEL, based=False), [KERNEL]),
    ],
)
def test_bug_server_of_a_deleted_image_did_not_move(image: Image, served: DiskExport, fetched: list[str]) -> None:
    path, asked_for = fetch(image, served)
    assert asked_for == fetched
    # Kernel and ramdisk lie beside it in the cache.
    assert (None if path is None else path.name) == (ROOT if fetched else None)


@pytest.mark.parametrize("served", [export(), export(KERNEL), export(ROOT), export(ROOT, based=None)])
def test_source_that_does_not_serve_all_of_the_image_is_refused(served: DiskExport) -> None:
    with pytest.raises(errors.ImageWithheld):
        require_served({ROOT: GONE, KERNEL: GONE}, WITH_KERNEL, served)
    with pytest.raises(errors.ImageWithheld):
        fetch(WITH_KERNEL, served)


@pytest.mark.parametrize("error", [errors.ServiceUnavailable("no answer"), errors.ImageUnacceptable("damaged")])
def test_another_failure_of_the_image_service_ends_the_move(error: Exception) -> None:
    with pytest.raises(type(error)):
        fetch(PLAIN, export(ROOT), gone=(), refuse=error)


@pytest.mark.parametrize(("gone", "digest"), [("i", ROOT), ("k", KERNEL)])
def test_bug_source_had_to_serve_files_that_the_destination_has(gone: str, digest: str) -> None:
    """One file of the image is gone from the image service: the others come from there."""
    check: Any = None
    assert images(Source(), Cache((gone,))).fetch(CTX, guest(WITH_KERNEL), check) == {digest: GONE}
    require_served({digest: GONE}, WITH_KERNEL, export(digest))
    path, fetched = fetch(WITH_KERNEL, export(digest), (gone,))
    assert (path, fetched) == (Path(f"/{ROOT}"), [digest])
