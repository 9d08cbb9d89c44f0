"""`/servers/{id}/os-volume_attachments`: an empty list, and all else is refused, because there is no volume service."""

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers import servers
from minova.api.http.call import Call
from minova.api.http.definition import Route


class NoVolumes(errors.MinovaError):
    code = 501


def index(api: ComputeApiCollaborators, call: Call) -> dict[str, list[str]]:
    """Raises NotFound for an unknown server. Clients read the list of each server."""
    with api.db.read() as session:
        servers.find(call, session)
    return {"volumeAttachments": []}


def refuse(api: ComputeApiCollaborators, call: Call) -> None:
    """Raises NotFound for an unknown server, and NoVolumes for any other: no server has a volume, and none
    can get one.
    """
    with api.db.read() as session:
        servers.find(call, session)
    raise NoVolumes(
        "Volumes are not served: there is no volume service. The disks of a server are those of its flavor."
    )


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/servers/{server_id}/os-volume_attachments",
        rule="os_compute_api:os-volumes-attachments:index",
        handler=index,
        answer={"volumeAttachments": list[str]},
    ),
    *(
        Route(
            method=method,
            path=f"/v2.1/servers/{{server_id}}/os-volume_attachments{item}",
            rule=f"os_compute_api:os-volumes-attachments:{name}",
            handler=refuse,
            set_by_handler={501: ""},
        )
        for method, item, name in (
            ("POST", "", "create"),
            ("GET", "/{volume_id}", "show"),
            ("PUT", "/{volume_id}", "update"),
            ("DELETE", "/{volume_id}", "delete"),
        )
    ),
)
