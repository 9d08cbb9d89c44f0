"""A server whose image was deleted from the image service did not move, although its source has the bytes."""

import pytest

from minova import errors
from minova.compute.moves.phases import MoveImages
from minova.virt.fake import FakeDriver
from tests.faults.mover import Mover

pytestmark = pytest.mark.timeout(300)

DIGEST = "a" * 64


def test_bug_image_that_was_deleted_stopped_a_move_at_its_claim(mover: Mover, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the guest is shut down, its source is asked whether it can serve the image."""
    requested_images: list[tuple[str, ...]] = []
    withheld = True

    def fetch(*_: object) -> dict[str, errors.ImageWithheld]:
        return {DIGEST: errors.ImageWithheld("not at the image service")} if withheld else {}

    def require_movable(_: FakeDriver, __: object, *, images: tuple[str, ...] = ()) -> None:
        requested_images.append(images)

    monkeypatch.setattr(MoveImages, "fetch", fetch)
    monkeypatch.setattr(MoveImages, "fetch_here", lambda *_: None)
    monkeypatch.setattr(FakeDriver, "require_movable", require_movable)
    mover.do("migrate")
    assert mover.row.vm_state == "resized"
    mover.do("confirm_resize")
    mover.require_sound()
    withheld = False
    mover.do("migrate")
    assert requested_images == [(DIGEST,), ()]
    mover.require_sound()
