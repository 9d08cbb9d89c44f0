"""Finds a resource by its name or ID."""

import re
from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

from minova.cli.client import COMPUTE, IMAGE, NETWORK, PAGE, Client, Json, part
from minova.cli.errors import ApiError, CliError

SOFT_DELETED = "SOFT_DELETED"


def server(client: Client, name_or_id: str, *, every: bool = False) -> Json:
    """The complete server. `every`: of any project, for administrators. Raises CliError if there is none, or several have the name."""
    return _only("server", name_or_id, _servers(client, name_or_id, every=every))


def server_or_deleted(client: Client, name_or_id: str, *, every: bool = False) -> Json:
    """Also one that is soft-deleted, which no listing shows unless it is asked for."""
    found = [
        *_servers(client, name_or_id, every=every),
        *_servers(client, name_or_id, SOFT_DELETED, every=every),
    ]
    return _only("server", name_or_id, {record["id"]: record for record in found}.values())


def server_to_restore(client: Client, name_or_id: str, *, every: bool = False) -> Json:
    """The soft-deleted one, whatever other servers have the name. Without one, as `server`: the API says why it cannot be restored."""
    found = _servers(client, name_or_id, SOFT_DELETED, every=every)
    return _only("server", name_or_id, found) if found else server(client, name_or_id, every=every)


def _servers(client: Client, name_or_id: str, status: str | None = None, *, every: bool) -> list[Json]:
    if _is_uuid(name_or_id) and (document := _by_id(client, f"{COMPUTE}/servers/", name_or_id)):
        return [dict(document["server"])] if status in {None, document["server"]["status"]} else []
    pages = client.pages(
        f"{COMPUTE}/servers/detail",
        "servers",
        name=f"^{re.escape(name_or_id)}$",
        status=status,
        all_tenants=1 if every else None,
    )
    return [record for record in pages if record["name"] == name_or_id]


def flavor(client: Client, name_or_id: str) -> Json:
    """The flavor, private ones too. An ID wins over another flavor's name."""
    every = list(client.pages(f"{COMPUTE}/flavors/detail", "flavors", is_public="None"))
    by_id = [record for record in every if record["id"] == name_or_id]
    return _only("flavor", name_or_id, by_id or [record for record in every if record["name"] == name_or_id])


def image(client: Client, name_or_id: str) -> Json:
    if _is_uuid(name_or_id) and (document := _by_id(client, f"{IMAGE}/images/", name_or_id)):
        return document
    pages = client.pages(f"{IMAGE}/images", "images", name=name_or_id)
    return _only("image", name_or_id, (record for record in pages if record["name"] == name_or_id))


def image_with(client: Client, properties: Mapping[str, str]) -> Json:
    """The only image that has all of them, as properties or as fields of its own. Raises CliError if there is none, or more."""
    found = [
        record
        for record in client.pages(f"{IMAGE}/images", "images")
        if all(str(record.get(key)) == value for key, value in properties.items())
    ]
    wanted = ", ".join(f"{key}={value}" for key, value in properties.items())
    if not found:
        raise CliError(
            f"No image has {wanted}. 'minova image list --long' and 'minova image show' show what they have."
        )
    if len(found) > 1:
        names = ", ".join(f"{record['name']} ({record['id']})" for record in found)
        raise CliError(f"{len(found)} images have {wanted}: {names}. Say which with --image.")
    return found[0]


def aggregate(client: Client, name_or_id: str) -> Json:
    """An ID wins over another aggregate's name."""
    every = client.get(f"{COMPUTE}/os-aggregates")["aggregates"]
    by_id = [record for record in every if str(record["id"]) == name_or_id]
    return _only("aggregate", name_or_id, by_id or (record for record in every if record["name"] == name_or_id))


def server_group(client: Client, name_or_id: str) -> Json:
    """By name only of one's own project; by ID of any, for administrators."""
    if _is_uuid(name_or_id) and (document := _by_id(client, f"{COMPUTE}/os-server-groups/", name_or_id)):
        return dict(document["server_group"])
    every = server_groups(client)
    return _only("server group", name_or_id, (record for record in every if record["name"] == name_or_id))


def network(client: Client, name_or_id: str) -> Json:
    return _on_network(client, "network", name_or_id)


def subnet(client: Client, name_or_id: str) -> Json:
    return _on_network(client, "subnet", name_or_id)


def port(client: Client, name_or_id: str) -> Json:
    return _on_network(client, "port", name_or_id)


def security_group(client: Client, name_or_id: str) -> Json:
    return _on_network(client, "security_group", name_or_id)


def _on_network(client: Client, kind: str, name_or_id: str) -> Json:
    path = f"{NETWORK}/{kind.replace('_', '-')}s"
    if _is_uuid(name_or_id) and (document := _by_id(client, f"{path}/", name_or_id)):
        return dict(document[kind])
    return _only(kind.replace("_", " "), name_or_id, client.pages(path, f"{kind}s", name=name_or_id))


def server_groups(client: Client, *, every: bool = False, offset: int = 0) -> Iterator[Json]:
    """Page after page: this listing has no links, but an offset. `every`: of all projects."""
    while True:
        more = {"all_projects": "true"} if every else {}
        path = f"{COMPUTE}/os-server-groups"
        page: list[Json] = client.get(path, limit=PAGE, offset=offset, **more)["server_groups"]
        yield from page
        offset += len(page)
        if len(page) < PAGE:
            return


def hypervisor(client: Client, name_or_id: str) -> Json:
    """Also by the name of its compute service's host, as `service list` and a server show it, if it has one node."""
    every = list(client.pages(f"{COMPUTE}/os-hypervisors/detail", "hypervisors"))
    by_id = [record for record in every if str(record["id"]) == name_or_id]
    by_name = [record for record in every if record["hypervisor_hostname"] == name_or_id]
    by_host = (record for record in every if (record.get("service") or {}).get("host") == name_or_id)
    return _only("hypervisor", name_or_id, by_id or by_name or by_host)


def _only(kind: str, wanted: str, records: Iterable[Json]) -> Json:
    matches = list(records)
    if not matches:
        raise CliError(f"There is no {kind} with the name or ID '{wanted}'. 'minova {kind} list' shows what there is.")
    if len(matches) > 1:
        ids = ", ".join(str(record["id"]) for record in matches)
        raise CliError(f"{len(matches)} {kind}s have the name '{wanted}'. Say which by ID: {ids}")
    return matches[0]


def _by_id(client: Client, path: str, identity: str) -> Json | None:
    try:
        return client.get(path + part(identity))
    except ApiError as error:
        if error.status == 404:
            return None
        raise


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
