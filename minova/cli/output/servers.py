"""The fields of `server show` and the columns of `server list`."""

from typing import Any

from cliff.columns import FormattableColumn

from minova.cli.client import COMPUTE, IMAGE, Client, Json, part
from minova.cli.errors import ApiError
from minova.cli.output.columns import KeyValues, Words, printable

POWER_STATES = {0: "NOSTATE", 1: "Running", 3: "Paused", 4: "Shutdown", 6: "Crashed", 7: "Suspended"}

STATE = "OS-EXT-STS:vm_state"
TASK_STATE = "OS-EXT-STS:task_state"
POWER_STATE = "OS-EXT-STS:power_state"
HOST = "OS-EXT-SRV-ATTR:host"
NODE = "OS-EXT-SRV-ATTR:hypervisor_hostname"
DOMAIN = "OS-EXT-SRV-ATTR:instance_name"
ZONE = "OS-EXT-AZ:availability_zone"
LAUNCHED = "OS-SRV-USG:launched_at"
# The statuses in which a build, an image, a rebuild or a move may be in progress.
WITH_PROGRESS = frozenset({"BUILD", "ACTIVE", "REBUILD", "RESIZE", "MIGRATING"})

EXTENDED = (ZONE, HOST, NODE, DOMAIN, POWER_STATE, TASK_STATE, STATE, LAUNCHED)


def fault_text(server: Json) -> str | None:
    """Returns the message of the fault that put the server into ERROR, and its details, which only administrators see.
    None if there is no fault.
    """
    fault = server.get("fault")
    if not fault:
        return None
    message, details = str(fault.get("message") or f"code {fault.get('code')}"), fault.get("details")
    # Administrators get the message again among the details, behind the name of the error.
    is_complete = not details or details in message or str(details).endswith(f": {message}")
    return message if is_complete else f"{message} ({details})"


class Power(FormattableColumn[int | None]):
    """A power state: a word on a terminal, Nova's number in machine-readable formats."""

    def human_readable(self) -> str:
        return "N/A" if self._value is None else POWER_STATES.get(self._value, str(self._value))


def networks(server: Json) -> dict[str, list[str]]:
    """Returns addresses by network name."""
    addresses = server.get("addresses") or {}
    return {name: [str(port.get("addr")) for port in ports] for name, ports in addresses.items()}


class Names:
    """Names of flavors and images by ID. Reads each list at most once. Shows the ID if there is no name."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._flavors: dict[str, str] | None = None
        self._images: dict[str, str] | None = None

    def flavor(self, server: Json) -> str:
        flavor = server.get("flavor") or {}
        if "original_name" in flavor:  # servers carry their flavor since microversion 2.47
            return str(flavor["original_name"])
        if self._flavors is None:
            flavors = self._client.pages(f"{COMPUTE}/flavors", "flavors", is_public="None")
            self._flavors = {record["id"]: record["name"] for record in flavors}
        return self._flavors.get(str(flavor.get("id", "")), str(flavor.get("id", "")))

    def image(self, server: Json) -> str:
        image = server.get("image") or {}
        if not image:
            return "N/A (booted from volume)"
        if self._images is None:
            images = self._client.pages(f"{IMAGE}/images", "images")
            self._images = {record["id"]: record["name"] or "" for record in images}
        return self._images.get(image["id"]) or str(image["id"])


class OneServer(Names):
    """Names for one server: reads only its flavor and image."""

    def flavor(self, server: Json) -> str:
        flavor = server.get("flavor") or {}
        if "original_name" in flavor:
            return str(flavor["original_name"])
        return self._name_of(f"{COMPUTE}/flavors/", "flavor", str(flavor.get("id", "")))

    def image(self, server: Json) -> str:
        image = server.get("image") or {}
        return self._name_of(f"{IMAGE}/images/", None, image["id"]) if image else "N/A (booted from volume)"

    def _name_of(self, path: str, key: str | None, identity: str) -> str:
        try:
            document = self._client.get(path + part(identity))
        except ApiError:
            return identity
        name = (document[key] if key else document).get("name")
        return f"{name} ({identity})" if name else identity


class NoNames(Names):
    """Shows the IDs as they are in the servers, without names."""

    def flavor(self, server: Json) -> str:
        flavor = server.get("flavor") or {}
        return str(flavor.get("original_name") or flavor.get("id", ""))

    def image(self, server: Json) -> str:
        image = server.get("image") or {}
        return str(image["id"]) if image else "N/A (booted from volume)"


class EachName(Names):
    """Reads each flavor and image of these servers once, and no complete list."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._known: dict[str, str] = {}

    def flavor(self, server: Json) -> str:
        flavor = server.get("flavor") or {}
        if "original_name" in flavor:
            return str(flavor["original_name"])
        return self._name(f"{COMPUTE}/flavors/", "flavor", str(flavor.get("id", "")))

    def image(self, server: Json) -> str:
        image = server.get("image") or {}
        return self._name(f"{IMAGE}/images/", None, str(image["id"])) if image else "N/A (booted from volume)"

    def _name(self, path: str, key: str | None, identity: str) -> str:
        if identity not in self._known:
            try:
                document = self._client.get(path + part(identity))
            except ApiError:
                document = {}
            self._known[identity] = (document.get(key, {}) if key else document).get("name") or identity
        return self._known[identity]


def fields(server: Json, names: Names) -> dict[str, Any]:
    """Returns all fields of one server, in the order of `show`, with the names of OpenStack's client."""
    fields_of_server: dict[str, Any] = {
        "id": server["id"],
        "name": server.get("name"),
        "status": server.get("status"),
        **{name: server[name] for name in EXTENDED if name in server},
        POWER_STATE: Power(server.get(POWER_STATE)),
        "addresses": KeyValues({name: ", ".join(ports) for name, ports in networks(server).items()}),
        "flavor": names.flavor(server),
        "image": names.image(server),
        "key_name": server.get("key_name"),
        "config_drive": server.get("config_drive"),
        "properties": KeyValues(server.get("metadata") or {}),
        "project_id": server.get("tenant_id"),
        "user_id": server.get("user_id"),
        "hostId": server.get("hostId"),
        "created": server.get("created"),
        "updated": server.get("updated"),
    }
    hostname = server.get("OS-EXT-SRV-ATTR:hostname")
    optional_fields = {
        "description": server.get("description"),
        "hostname": hostname,
        "locked": server.get("locked"),
        "locked_reason": server.get("locked_reason"),
    }
    fields_of_server |= {name: value for name, value in optional_fields.items() if value is not None}
    if "tags" in server:
        fields_of_server["tags"] = Words(server["tags"])
    if server.get("status") in WITH_PROGRESS and "progress" in server:
        fields_of_server["progress"] = server["progress"]
    if server.get("fault"):
        fields_of_server["fault"] = ServerFault(server["fault"])
    return fields_of_server


class ServerFault(KeyValues):
    """A fault: the reason on a terminal; code, message and time in machine-readable formats."""

    def human_readable(self) -> str:
        return printable(fault_text({"fault": self._value}) or "")


class ServerNetworks(FormattableColumn[dict[str, list[str]]]):
    """Networks: `front=10.0.0.5, fd00::5; back=10.1.0.2` on a terminal; addresses by network in machine-readable
    formats.
    """

    def human_readable(self) -> str:
        return printable("; ".join(f"{name}={', '.join(addresses)}" for name, addresses in sorted(self._value.items())))


COLUMNS = ("ID", "Name", "Status", "Task State", "Networks", "Host", "Image", "Flavor")
LONG_COLUMNS = ("Power State", "Availability Zone", "Node", "Created", "Properties", "Locked")


def row(server: Json, names: Names, *, long: bool) -> tuple[Any, ...]:
    short = (
        server["id"],
        server["name"],
        server["status"],
        server.get(TASK_STATE),
        ServerNetworks(networks(server)),
        server.get(HOST),
        names.image(server),
        names.flavor(server),
    )
    if not long:
        return short
    return (
        *short,
        Power(server.get(POWER_STATE)),
        server.get(ZONE),
        server.get(NODE),
        server.get("created"),
        KeyValues(server.get("metadata") or {}),
        server.get("locked"),
    )
