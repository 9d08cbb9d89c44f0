"""The metadata that a guest may read about itself, for the metadata service, and the password that the guest stores
there.
"""

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.compute_messages import zones_of_hosts
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.api.servers import ServerPasswordsApi
from minova.contracts.conductor.metadata import MetadataOfHostsApi, MetadataOfProjectsApi
from minova.db.networks import guests
from minova.db.servers import instances
from minova.objects.guests.guest_metadata import LONGEST_PASSWORD, PASSWORD, GuestMetadata


class GuestMetadatas(ServerPasswordsApi, MetadataOfHostsApi, MetadataOfProjectsApi):
    def __init__(self, worker: TaskWorker) -> None:
        self._worker = worker

    def metadata_of_address(self, ctx: RequestContext, host: str, address: str, network_id: str) -> GuestMetadata:
        with self._worker.db.read() as session:
            return _metadata(session, _on_host(session, host, address, network_id))

    def metadata_of_instance(self, ctx: RequestContext, instance_uuid: str, project_id: str) -> GuestMetadata:
        with self._worker.db.read() as session:
            return _metadata(session, _of_project(session, instance_uuid, project_id))

    def leave_password_of_address(
        self, ctx: RequestContext, host: str, address: str, password: str, network_id: str
    ) -> None:
        self._worker.run(lambda session: self._leave(session, _on_host(session, host, address, network_id), password))

    def leave_password(self, ctx: RequestContext, instance_uuid: str, project_id: str, password: str) -> None:
        self._worker.run(
            lambda session: self._leave(session, _of_project(session, instance_uuid, project_id), password)
        )

    def clear_server_password(self, ctx: RequestContext, instance_uuid: str) -> None:
        self._worker.run(lambda session: self._set(session, instance_uuid, ""))

    def _leave(self, session: Session, instance_uuid: str, password: str) -> None:
        if not password:
            raise errors.BadRequest("A password has at least one byte.")
        if len(password.encode()) > LONGEST_PASSWORD:
            raise errors.BadRequest(f"A password has at most {LONGEST_PASSWORD} bytes.")
        self._set(session, instance_uuid, password)

    def _set(self, session: Session, instance_uuid: str, password: str) -> None:
        locked = instances.lock(session, [instance_uuid]).get(instance_uuid)
        if locked is None or locked.deleted:
            raise errors.NotFound(f"Instance {instance_uuid} could not be found.")
        system_metadata = instances.system_metadata_of(session, instance_uuid)
        if password and system_metadata.get(PASSWORD):
            raise errors.Conflict("There is a password already.")
        values = {**system_metadata, PASSWORD: password}
        instances.set_attributes(session, instance_uuid, self._worker.at(), {"system_metadata": values})


def _on_host(session: Session, host: str, address: str, network_id: str) -> str:
    instance_uuid = guests.on_host(session, host, address, network_id)
    if instance_uuid is None:
        raise errors.NotFound(f"No instance of this host has the address {address[:64]}.")
    return instance_uuid


def _of_project(session: Session, instance_uuid: str, project_id: str) -> str:
    instance = instances.by_uuids(session, [instance_uuid]).get(instance_uuid) if len(instance_uuid) <= 36 else None
    if instance is None or instance.deleted or instance.project_id != project_id:
        raise errors.NotFound(f"Instance {instance_uuid[:64]} could not be found.")
    return instance.uuid


def _metadata(session: Session, instance_uuid: str) -> GuestMetadata:
    instance = instances.by_uuids(session, [instance_uuid])[instance_uuid]
    # Guests do not read the rules of ports, and these may be long.
    vifs = tuple(msgspec.structs.replace(vif, rules=None) for vif in instance.network_info)
    zone = zones_of_hosts(session).get(instance.host or "", "")
    return GuestMetadata(instance=msgspec.structs.replace(instance, network_info=vifs), availability_zone=zone)
