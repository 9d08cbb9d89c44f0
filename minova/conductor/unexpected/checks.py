"""Checks of what hosts and image stores report: a stolen host may send anything that the contract's types allow. Pure.

What is stored, logged or shown later has a known form, and everything has a bound.
"""

import re
import typing
from collections.abc import Sequence

import msgspec

from minova import errors
from minova.context import OneLine, RequestId
from minova.objects.catalogue.image import StoredImage
from minova.objects.network.network import MAX_ADDRESSES
from minova.objects.network.vif import MAX_NICS, Vif
from minova.objects.servers.states import power_state_of
from minova.objects.unexpected.guest_record import MAX_ACTIONS, GuestMark, GuestRecord
from minova.uuids import is_canonical_uuid

# The most guests in one report of a host, and the most images in one report of a store.
MAX_GUESTS = 10_000
MAX_IMAGES = 100_000
# The most bytes of one record. User data alone may have 64 KiB, and its interfaces some 2000 ranges each.
MAX_RECORD = 1 << 20
# The most attempts to build one instance: far below what its column holds, so that later attempts fit.
MAX_ATTEMPT = 1_000_000
_MAX_ID = (1 << 31) - 1
_MAX_SIZE = (1 << 63) - 1
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.ASCII)
_ONE_LINE, _REQUEST_ID = (re.compile(typing.get_args(kind)[1].pattern) for kind in (OneLine, RequestId))


def require_marks(marks: Sequence[GuestMark]) -> None:
    """Raises BadRequest if a mark does not have the form of a mark, or there are too many."""
    if len(marks) > MAX_GUESTS:
        raise errors.BadRequest(f"The report has {len(marks)} guests. The maximum is {MAX_GUESTS}.")
    if len({mark.uuid for mark in marks}) < len(marks):
        raise errors.BadRequest("The report has two marks of one guest.")
    for mark in marks:
        wrong = _wrong_field(mark)
        if wrong:
            raise errors.BadRequest(f"The report has a guest whose {wrong} is not valid: {_printable(mark, wrong)}.")


def _wrong_field(mark: GuestMark) -> str:
    """Returns the name of a field that is not valid; empty: all are."""
    valid = {
        "uuid": is_canonical_uuid(mark.uuid),
        "name": _is_line(mark.name),
        "node": _is_line(mark.node),
        "request_id": mark.request_id is None or bool(_REQUEST_ID.match(mark.request_id)),
        "power_state": power_state_of(mark.power_state) == mark.power_state,
        "attempt": _is_within(mark.attempt or 0, MAX_ATTEMPT),
        "action_id": _is_within(mark.action_id or 0, _MAX_ID),
        **{name: _is_within(getattr(mark, name), _MAX_ID) for name in ("memory_mb", "vcpus", "disk_gb")},
    }
    return next((name for name, is_valid in valid.items() if not is_valid), "")


def _printable(mark: GuestMark, name: str) -> str:
    return ascii(getattr(mark, name))[:100]


def record_is_valid(record: GuestRecord) -> bool:
    """Whether a record may be stored, and its interfaces held."""
    return (
        is_canonical_uuid(record.instance.uuid)
        and _is_within(record.attempt, MAX_ATTEMPT)
        and _is_line(record.node)
        and len(record.actions) <= MAX_ACTIONS
        and all(_is_within(action.id, _MAX_ID) for action in record.actions)
        and len(record.instance.network_info) <= MAX_NICS
        and all(_vif_is_valid(vif) for vif in record.instance.network_info)
        and len(msgspec.json.encode(record)) <= MAX_RECORD
    )


def _vif_is_valid(vif: Vif) -> bool:
    ids = (vif.port_id, vif.network_id, *(address.subnet_id for address in vif.addresses))
    # An interface in Neutron may have more addresses than a port of minova: nothing is held for it.
    most = MAX_ADDRESSES if not vif.from_neutron else 16 * MAX_ADDRESSES
    return all(map(is_canonical_uuid, ids)) and bool(_MAC.fullmatch(vif.mac_address)) and len(vif.addresses) <= most


def valid_images(store: str, images: Sequence[StoredImage]) -> dict[str, StoredImage]:
    """Returns the images by id. Leaves out what is no image, such as a file of another name, and records that are not of
    their image or are too long. Raises BadRequest if there are too many images, or the store has no valid name.
    """
    if not store or not _is_line(store):
        raise errors.BadRequest("The report of images names no valid store.")
    if len(images) > MAX_IMAGES:
        raise errors.BadRequest(f"The report has {len(images)} images. The maximum is {MAX_IMAGES}.")
    valid = (stored for stored in images if is_canonical_uuid(stored.id) and _is_within(stored.size, _MAX_SIZE))
    return {stored.id: stored if _is_own(stored) else msgspec.structs.replace(stored, image=None) for stored in valid}


def _is_own(stored: StoredImage) -> bool:
    """Whether the record beside the bytes, if there is any, is one of this image."""
    return stored.image is None or (
        stored.image.id == stored.id and len(msgspec.json.encode(stored.image)) <= MAX_RECORD
    )


def _is_line(text: str) -> bool:
    return len(text) <= 255 and bool(_ONE_LINE.match(text))


def _is_within(number: int, most: int) -> bool:
    return 0 <= number <= most
