"""After quiet: what every acknowledged server has come to, beside the invariants of any cloud."""

from collections import Counter, defaultdict

from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.db.models import CreateRequest, Image, Instance, InstanceFault, InstanceGroup, InstanceGroupMember
from tests.invariants import violations
from tests.soak.cloud import Cloud
from tests.soak.journal import Journal


def check(session: Session, cloud: Cloud, journal: Journal) -> list[str]:
    """What is wrong now; [] when all is well."""
    violation_list = violations(session, cloud.domains())
    instances = {instance.uuid: instance for instance in session.scalars(select(Instance))}
    servers_by_request: dict[str, list[str]] = {
        row.request_uuid: list(row.instance_uuids) for row in session.scalars(select(CreateRequest))
    }
    for create in list(journal.creates.values()):
        if create.answered_at is None:
            violation_list.append(f"create {create.uuid} was never answered")
        elif create.uuid not in servers_by_request and journal.may_be_lost(create):
            continue
        elif not create.refused and len(servers_by_request.get(create.uuid, ())) != create.count:
            violation_list.append(
                f"create {create.uuid} was answered and has {servers_by_request.get(create.uuid)}, not {create.count} servers"
            )
    known_servers = {server for servers in servers_by_request.values() for server in servers}
    violation_list += [
        f"{server} was acknowledged and has no row" for server in sorted(known_servers - instances.keys())
    ]
    violation_list += [
        f"{server} belongs to no request" for server in sorted(instances.keys() - known_servers - journal.adopted)
    ]
    for uuid, instance in instances.items():
        if instance.deleted_at is None and instance.vm_state == "stopped":
            violation_list.append(f"{uuid} is stopped without a request")
        if instance.deleted_at is not None and uuid not in journal.delete_sent:
            violation_list.append(f"{uuid} is gone without a request")
        if instance.deleted_at is None and uuid in journal.deleted and instance.vm_state != "error":
            violation_list.append(f"{uuid} was deleted and is {instance.vm_state}")
    return violation_list + _of_groups(session, instances) + _of_recoveries(session, cloud, journal)


def _of_recoveries(session: Session, cloud: Cloud, journal: Journal) -> list[str]:
    """Guests that ran while the database went back in time run on with their disks, unless a user deleted them. All images are
    there.
    """
    guests, files = cloud.guests(), cloud.stored_images()
    rows = set(session.scalars(select(Image.id)))
    wrong_guests = [
        f"{uuid} ran as {guest} when the database went back in time, and is {guests.get(uuid)}"
        for uuid, guest in sorted(journal.guests.items())
        if uuid not in journal.delete_sent
        and guests.get(uuid) != guest
        and not (uuid in journal.moved and uuid in guests)
    ]
    wrong_guests += [f"the bytes of image {image} are lost" for image in sorted(journal.images - files)]
    return wrong_guests + [f"image {image} has no row" for image in sorted(journal.images - rows)]


def _of_groups(session: Session, instances: dict[str, Instance]) -> list[str]:
    """Members that run stand together, or apart, as their group's policy says."""
    hosts: dict[int, list[str]] = defaultdict(list)
    for member in session.scalars(select(InstanceGroupMember)):
        instance = instances.get(member.instance_uuid)
        if instance is not None and instance.deleted_at is None and instance.vm_state in {"active", "resized"}:
            hosts[member.group_id].append(instance.host or "")
    broken_groups = []
    for group in session.scalars(select(InstanceGroup)):
        per_host = Counter(hosts[group.id])
        if group.policy == "anti-affinity" and any(count > 1 for count in per_host.values()):
            broken_groups.append(f"group {group.uuid} (anti-affinity) has members on one host: {dict(per_host)}")
        if group.policy == "affinity" and len(per_host) > 1:
            broken_groups.append(f"group {group.uuid} (affinity) is on several hosts: {dict(per_host)}")
    return broken_groups


def outcome(session: Session) -> tuple[Counter[str], Counter[str]]:
    """Servers by what they have come to, and the reasons of those in error."""
    states: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for instance in session.scalars(select(Instance)):
        states["gone" if instance.deleted_at is not None else instance.vm_state] += 1
    broken = select(Instance.uuid).where(Instance.vm_state == "error")
    for fault in session.scalars(select(InstanceFault).where(InstanceFault.instance_uuid.in_(broken))):
        reasons[fault.message[:160]] += 1
    return states, reasons
