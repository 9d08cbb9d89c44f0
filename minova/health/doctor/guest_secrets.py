"""Keys of the secrets of guests: what the database and the other conductors have, and this machine lacks."""

from collections.abc import Iterator

from sqlalchemy import func, select

from minova.conductor.tokens.sealing import KEY_ID_LENGTH, Sealing
from minova.db.hosts import services
from minova.db.models import GuestSecret, ProviderTrait
from minova.errors import InvalidConfiguration
from minova.hardware.guest.features import NEED_SECRETS
from minova.health.doctor.findings import Finding, Patient

OPTION = "[guest_secrets] key_file"


def check(patient: Patient) -> Iterator[Finding]:
    yield from _of_conductors(patient)
    file = patient.conf("minova-conductor").guest_secrets.key_file
    try:
        sealing = Sealing.of_file(file)
    except InvalidConfiguration as error:
        if not isinstance(error.__cause__, PermissionError):
            yield _finding(str(file), "cannot be used", str(error))
        return
    key_id = func.substr(GuestSecret.value, 1, KEY_ID_LENGTH)
    for name in sorted({*patient.session.scalars(select(key_id).distinct())} - sealing.key_ids):
        yield _finding(f"the key {name}", "encrypts secrets of guests, and this machine lacks it", f"{OPTION} = {file}")
    offered = select(ProviderTrait.trait).where(ProviderTrait.trait.in_(sorted(NEED_SECRETS))).limit(1)
    if not sealing and patient.session.scalar(offered) is not None:
        yield _finding(
            "the conductor of this machine", "has no key, and others have one", "hosts offer encrypted disks or TPMs"
        )


def _of_conductors(patient: Patient) -> Iterator[Finding]:
    """The conductors that are alive report the IDs of their keys when they start."""
    keys_by_host = services.guest_keys(patient.session, float(patient.conf("minova-conductor").service_down_time))
    if len({*keys_by_host.values()}) > 1:
        detail = "; ".join(f"{host}: {keys or 'none'}" for host, keys in keys_by_host.items())
        yield _finding("conductors", "have different keys for secrets of guests", detail)


def _finding(subject: str, problem: str, detail: str) -> Finding:
    return Finding(
        area="secrets",
        subject=subject,
        problem=problem,
        detail=detail,
        mend=f"make {OPTION} the same on all controllers, and restart minova-conductor (docs/operators/guests.md#encrypted-disks-and-tpms)",
    )
