"""`/servers/{id}/os-volume_attachments`: refused, because there is no volume service."""

from minova import errors
from minova.api.compute.collaborators import Collaborators
from minova.api.compute.servers import servers
from minova.api.http.call import Call
from minova.api.http.definition import Route


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


ROUTES: tuple[Route, ...] = tuple(
    Route(
        method=method,
        path=f"/v2.1/servers/{{server_id}}/os-volume_attachments{item}",
        rule=f"os_compute_api:os-volumes-attachments:{name}",
        handler=refuse,
        set_by_handler={501: ""},
    )
    for method, item, name in (
        ("GET", "", "index"),
        ("POST", "", "create"),
        ("GET", "/{volume_id}", "show"),
        ("PUT", "/{volume_id}", "update"),
        ("DELETE", "/{volume_id}", "delete"),
    )
)
