"""Records of images against the bytes in the image store of this machine, and what other stores have reported."""

from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import select

from minova.db.models import DeletedImage, Image, UnexpectedImage
from minova.db.sql import chunked
from minova.health.doctor.findings import Finding, Patient, Severity

AREA = "images"
WITH_BYTES = ("active", "deactivated")


def check(patient: Patient) -> Iterator[Finding]:
    for row in patient.session.scalars(select(UnexpectedImage).where(UnexpectedImage.remove_at.is_(None))):
        yield Finding(
            area=AREA,
            subject=f"the bytes of {row.id} in the store of {row.store}",
            problem="have no record, or an older one",
            detail=f"{row.size} bytes",
            mend=f"minova-manage unexpected list, then adopt or remove {row.id}",
        )
    conf = patient.conf("minova-api")
    store = Path(conf.api.images_path)
    if conf.glance.backend != "glance" and store.is_dir():
        yield from _store(patient, store)


def _store(patient: Patient, store: Path) -> Iterator[Finding]:
    rows = {row.id: row for row in patient.session.scalars(select(Image))}
    for row in rows.values():
        if row.status in WITH_BYTES and row.value.service != "glance":
            yield from _bytes(row, store / row.id)
    reported = patient.session.scalars(select(UnexpectedImage.id))
    files = {path.name for path in store.iterdir() if path.is_file() and path.suffix != ".part"}
    unknown = files.difference(rows, reported)
    # minova-api removes the bytes of deleted images once a minute.
    deleted: set[str] = set()
    for chunk in chunked(sorted(unknown)):
        deleted.update(patient.session.scalars(select(DeletedImage.id).where(DeletedImage.id.in_(chunk))))
    for name in sorted(unknown - deleted):
        yield Finding(
            area=AREA,
            subject=f"the file {store / name}",
            problem="has no record of an image",
            mend=f"minova-api removes or reports it within a minute; else look at it, and: rm {store / name}",
            severity=Severity.WARNING,
        )


def _bytes(row: Image, path: Path) -> Iterator[Finding]:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        yield Finding(
            area=AREA,
            subject=f"image {row.id} ({row.name})",
            problem="has a record and no bytes",
            detail=f"{path} is not there",
            mend=f"restore the file from a backup, or minova image delete {row.id}",
        )
        return
    if row.value.size is not None and size != row.value.size:
        yield Finding(
            area=AREA,
            subject=f"image {row.id} ({row.name})",
            problem="has not the bytes of its record",
            detail=f"{size} bytes, and {row.value.size} are recorded",
            mend=f"restore {path} from a backup, or minova image delete {row.id}",
        )
