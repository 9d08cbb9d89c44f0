"""Why the record of a guest needs a look of its own: a stolen host can write whatever it likes into it.

Guests without doubts are adopted together. The others are adopted one by one, when an operator has looked at them.
"""

from oslo_config import cfg
from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.db import quotas
from minova.db.catalogue import images
from minova.db.models import Flavor, Instance, Network, UnexpectedGuest
from minova.db.recovery import unexpected
from minova.db.servers import request_specs
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.quota import overruns
from minova.objects.unexpected.guest_record import GuestRecord
from minova.objects.unexpected.removal_rules import HAS_NOTHING

_VISIBLE_TO_ALL = ("public", "community")


def of(session: Session, conf: cfg.ConfigOpts, guest: UnexpectedGuest) -> list[str]:
    """Returns why this guest is not adopted together with others, in words. Empty: it is."""
    record = guest.record
    if guest.reason in HAS_NOTHING:
        return []  # nothing that a host has written is adopted
    if record is None:
        return [f"host {guest.host} has sent no record of it"]
    row = session.scalars(select(Instance).where(Instance.uuid == guest.uuid)).one_or_none()
    return [
        *_of_hosts(session, guest, row),
        *_of_flavor(session, record, row),
        *_of_images(session, record, row),
        *_of_networks(session, record, row),
        *(_of_quota(session, conf, record) if row is None else ()),
    ]


def _of_hosts(session: Session, guest: UnexpectedGuest, row: Instance | None) -> list[str]:
    others = [
        other.host
        for other in unexpected.guests(session, guest.uuid)
        if other.host != guest.host and other.reason not in HAS_NOTHING
    ]
    if row is not None and row.deleted_at is None and row.host not in (None, guest.host):
        others.append(row.host or "")
    doubts = [f"host {host} has it, too" for host in sorted(set(others))]
    if row is not None and guest.record is not None and row.project_id != guest.record.instance.project_id:
        doubts.append("its record and its row name different projects")
    return doubts


def _of_flavor(session: Session, record: GuestRecord, row: Instance | None) -> list[str]:
    flavor = record.instance.flavor
    if row is not None and row.flavor == flavor:
        return []
    current_flavor = session.scalar(select(Flavor.value).where(Flavor.flavorid == flavor.flavorid))
    return [] if current_flavor == flavor else [f"there is no such flavor {flavor.name}, or it has changed"]


def _of_images(session: Session, record: GuestRecord, row: Instance | None) -> list[str]:
    """All images that the adoption would write."""
    instance = record.instance
    spec = None if record.request_spec is None else record.request_spec.image
    own_ids = {None if row is None else row.image_ref} | _known_images(session, row)
    ids = {instance.image_ref, *(image.id for image in (instance.image, spec) if image is not None)} - own_ids
    doubts = []
    for image_id in sorted(ids):
        image = images.find(session, image_id) if image_id else None
        if image is None:
            doubts.append(f"there is no image {image_id}".rstrip() + " here")
        elif not _is_visible(session, image, instance.project_id):
            doubts.append(f"project {instance.project_id} does not see image {image_id}")
        elif any(
            _differs(recorded, image)
            for recorded in (instance.image, spec)
            if recorded is not None and recorded.id == image_id
        ):
            doubts.append(f"image {image_id} has changed")
    return doubts


def _known_images(session: Session, row: Instance | None) -> set[str | None]:
    """Returns the images that the instance has by its row and its request."""
    if row is None:
        return set()
    stored = request_specs.load(session, [row.reservation_id])
    specs = [request.spec for request in stored.values() if request.spec is not None]
    return {image.id for image in (row.image, *(spec.image for spec in specs)) if image is not None} | {
        row.shelved_image_id
    }


def _is_visible(session: Session, image: Image, project_id: str) -> bool:
    return (
        image.owner == project_id
        or image.visibility in _VISIBLE_TO_ALL
        or (images.member(session, image.id, project_id) is not None)
    )


def _differs(recorded: Image, current: Image) -> bool:
    """Whether the bytes or the properties differ. Who may use it does not count."""
    return any(
        getattr(recorded, name) != getattr(current, name)
        for name in ("size", "checksum", "os_hash_algo", "os_hash_value", "disk_format", "properties")
    )


def _of_networks(session: Session, record: GuestRecord, row: Instance | None) -> list[str]:
    project_id = record.instance.project_id if row is None else row.project_id
    network_ids = sorted({vif.network_id for vif in record.instance.network_info if not vif.from_neutron})
    query = select(Network.uuid).where(
        Network.uuid.in_(network_ids), Network.project_id != project_id, Network.shared.is_(False)
    )
    return [f"network {uuid} belongs to another project" for uuid in session.scalars(query.order_by(Network.uuid))]


def _of_quota(session: Session, conf: cfg.ConfigOpts, record: GuestRecord) -> list[str]:
    project_id = record.instance.project_id
    amounts = quotas.of_servers(record.instance.flavor)
    limits = quotas.limits_of(session, conf, project_id)
    over = overruns(amounts, quotas.current_usages(session, project_id), limits)
    names = ", ".join(overrun.resource for overrun in over)
    return [f"the quota of project {project_id} is too small: {names}"] if over else []
