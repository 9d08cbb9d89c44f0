"""Finds a resource by its name or ID."""

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping

from minova.cli.client import COMPUTE, IMAGE, NETWORK, PAGE, Client, Json, part
from minova.cli.errors import ApiError, CliError
from minova.uuids import is_uuid

SOFT_DELETED = "SOFT_DELETED"


def server(client: Client, name_or_id: str, *, every: bool = False) -> Json:
    """Returns the complete server. `every`: search all projects, for administrators. Raises CliError if there is none,
    or if several have the name.
    """
    return _only("server", name_or_id, _servers(client, name_or_id, every=every))


def server_or_deleted(client: Client, name_or_id: str, *, every: bool = False) -> Json:
    """As `server`, but also finds soft-deleted servers, which a listing shows only on request."""
    records = [
        *_servers(client, name_or_id, every=every),
        *_servers(client, name_or_id, SOFT_DELETED, every=every),
    ]
    return _only("server", name_or_id, {record["id"]: record for record in records}.values())


def server_to_restore(client: Client, name_or_id: str, *, every: bool = False) -> Json:
    """Returns the soft-deleted server, even if other servers have the same name. If there is none, as `server`: the API
    then reports why it cannot be restored.
    """
    deleted_servers = _servers(client, name_or_id, SOFT_DELETED, every=every)
    return _only("server", name_or_id, deleted_servers) if deleted_servers else server(client, name_or_id, every=every)


def _servers(client: Client, name_or_id: str, status: str | None = None, *, every: bool) -> list[Json]:
    if is_uuid(name_or_id) and (document := _by_id(client, f"{COMPUTE}/servers/", name_or_id)):
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
    """Returns the flavor, including private ones. A match by ID takes precedence over a match by name."""
    flavors = list(client.pages(f"{COMPUTE}/flavors/detail", "flavors", is_public="None"))
    by_id = [record for record in flavors if record["id"] == name_or_id]
    return _only("flavor", name_or_id, by_id or [record for record in flavors if record["name"] == name_or_id])


def image(client: Client, name_or_id: str) -> Json:
    if is_uuid(name_or_id) and (document := _by_id(client, f"{IMAGE}/images/", name_or_id)):
        return document
    pages = client.pages(f"{IMAGE}/images", "images", name=name_or_id)
    return _only("image", name_or_id, (record for record in pages if record["name"] == name_or_id))


def image_with(client: Client, properties: Mapping[str, str]) -> Json:
    """Returns the only image that has all these values, as properties or as its own fields. Raises CliError if there is
    none, or more than one.
    """
    images = [
        record
        for record in client.pages(f"{IMAGE}/images", "images")
        if all(str(record.get(key)) == value for key, value in properties.items())
    ]
    properties_text = ", ".join(f"{key}={value}" for key, value in properties.items())
    if not images:
        raise CliError(
            f"No image has {properties_text}. 'minova image list --long' and 'minova image show' show what they have."
        )
    if len(images) > 1:
        names = ", ".join(f"{record['name']} ({record['id']})" for record in images)
        raise CliError(f"{len(images)} images have {properties_text}: {names}. Say which with --image.")
    return images[0]


def aggregate(client: Client, name_or_id: str) -> Json:
    """Returns the aggregate. A match by ID takes precedence over a match by name."""
    aggregates = client.get(f"{COMPUTE}/os-aggregates")["aggregates"]
    by_id = [record for record in aggregates if str(record["id"]) == name_or_id]
    return _only("aggregate", name_or_id, by_id or (record for record in aggregates if record["name"] == name_or_id))


def server_group(client: Client, name_or_id: str) -> Json:
    """Returns the server group. A name is searched only in the caller's project; an ID in all projects, for
    administrators.
    """
    if is_uuid(name_or_id) and (document := _by_id(client, f"{COMPUTE}/os-server-groups/", name_or_id)):
        return dict(document["server_group"])
    groups = server_groups(client)
    return _only("server group", name_or_id, (record for record in groups if record["name"] == name_or_id))


def network(client: Client, name_or_id: str) -> Json:
    return _on_network(client, "network", name_or_id)


def subnet(client: Client, name_or_id: str) -> Json:
    return _on_network(client, "subnet", name_or_id)


def port(client: Client, name_or_id: str) -> Json:
    return _on_network(client, "port", name_or_id)


def security_group(client: Client, name_or_id: str) -> Json:
    return _on_network(client, "security_group", name_or_id)


def address_group(client: Client, name_or_id: str) -> Json:
    return _on_network(client, "address_group", name_or_id)


def subnet_pool(client: Client, name_or_id: str) -> Json:
    return _on_network(client, "subnetpool", name_or_id, "subnet pool")


def _on_network(client: Client, kind: str, name_or_id: str, noun: str = "") -> Json:
    path = f"{NETWORK}/{kind.replace('_', '-')}s"
    if is_uuid(name_or_id) and (document := _by_id(client, f"{path}/", name_or_id)):
        return dict(document[kind])
    return _only(noun or kind.replace("_", " "), name_or_id, client.pages(path, f"{kind}s", name=name_or_id))


def server_groups(client: Client, *, every: bool = False, offset: int = 0) -> Iterator[Json]:
    """Yields server groups from page to page. This listing has an offset instead of links. `every`: of all projects."""
    while True:
        more = {"all_projects": "true"} if every else {}
        path = f"{COMPUTE}/os-server-groups"
        page: list[Json] = client.get(path, limit=PAGE, offset=offset, **more)["server_groups"]
        yield from page
        offset += len(page)
        if len(page) < PAGE:
            return


def hypervisor(client: Client, name_or_id: str) -> Json:
    """Returns the hypervisor. A host's name, as `service list` and a server show it, also finds it if the host has one
    node.
    """
    hypervisors = list(client.pages(f"{COMPUTE}/os-hypervisors/detail", "hypervisors"))
    by_id = [record for record in hypervisors if str(record["id"]) == name_or_id]
    by_name = [record for record in hypervisors if record["hypervisor_hostname"] == name_or_id]
    by_host = (record for record in hypervisors if (record.get("service") or {}).get("host") == name_or_id)
    return _only("hypervisor", name_or_id, by_id or by_name or by_host)


def owner(client: Client, parsed_args: argparse.Namespace, kind: str = "project") -> str | None:
    """Returns the ID of the project or user that the options of `parser.add_owner` name; None: none is."""
    name, domain = getattr(parsed_args, kind), getattr(parsed_args, f"{kind}_domain")
    return None if name is None else client.owner(kind, name, domain)


def _only(kind: str, name_or_id: str, records: Iterable[Json]) -> Json:
    matches = list(records)
    if not matches:
        raise CliError(
            f"There is no {kind} with the name or ID '{name_or_id}'. 'minova {kind} list' shows what there is."
        )
    if len(matches) > 1:
        ids = ", ".join(str(record["id"]) for record in matches)
        raise CliError(f"{len(matches)} {kind}s have the name '{name_or_id}'. Say which by ID: {ids}")
    return matches[0]


def _by_id(client: Client, path: str, identity: str) -> Json | None:
    try:
        return client.get(path + part(identity))
    except ApiError as error:
        if error.status == 404:
            return None
        raise
