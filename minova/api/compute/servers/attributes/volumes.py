"""`/servers/{id}/os-volume_attachments`: refused, because there is no volume service."""

from minova import errors
from minova.api.compute.collaborators import Collaborators
from minova.api.compute.servers import servers
from minova.api.http.call import Call


class NoVolumes(errors.MinovaError):
    code = 501


def refuse(api: Collaborators, call: Call) -> None:
    """Raises NotFound for an unknown server, and NoVolumes for any other: no server has a volume, and none
    can get one.
    """
    with api.db.read() as session:
        servers.find(call, session)
    raise NoVolumes(
        "Volumes are not served: there is no volume service. The disks of a server are those of its flavor."
    )
