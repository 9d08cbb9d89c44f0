"""The books of an API as the CLI meets it: OpenStack's shapes, and faults that tests order. `api_server` serves them.

It stands for minova-api where a test needs what the real one does not do on demand: a lost answer, a busy moment, a build
that goes through given states, one at each question.
"""

import threading
import uuid
from typing import Any

from minova.objects.servers.server_status import status_of

Json = dict[str, Any]

ACTIVE: tuple[Json, ...] = ({"status": "ACTIVE", "vm_state": "active", "host": "host1", "power_state": 1},)
STOPPED: Json = {"status": "SHUTOFF", "vm_state": "stopped", "host": "host1", "power_state": 4}
PAUSED: Json = {"status": "PAUSED", "vm_state": "paused", "host": "host1", "power_state": 3}
SUSPENDED: Json = {"status": "SUSPENDED", "vm_state": "suspended", "host": "host1", "power_state": 4}
RESCUED: Json = {"status": "RESCUE", "vm_state": "rescued", "host": "host1", "power_state": 1}
SHELVED: Json = {"status": "SHELVED_OFFLOADED", "vm_state": "shelved_offloaded", "host": None, "power_state": 4}
RESIZED: Json = {"status": "VERIFY_RESIZE", "vm_state": "resized", "host": "host2", "power_state": 1}
# The task state of each server action, and how it ends.
ACTIONS: dict[str, tuple[str, Json]] = {
    "os-stop": ("powering-off", STOPPED),
    "os-start": ("powering-on", ACTIVE[0]),
    "reboot": ("reboot_started", ACTIVE[0]),
    "pause": ("pausing", PAUSED),
    "unpause": ("unpausing", ACTIVE[0]),
    "suspend": ("suspending", SUSPENDED),
    "resume": ("resuming", ACTIVE[0]),
    "rebuild": ("rebuild_spawning", ACTIVE[0]),
    "rescue": ("rescuing", RESCUED),
    "unrescue": ("unrescuing", ACTIVE[0]),
    "trigger_crash_dump": ("", ACTIVE[0]),
    "shelve": ("shelving_offloading", SHELVED),
    "shelveOffload": ("shelving_offloading", SHELVED),
    "unshelve": ("spawning", ACTIVE[0]),
    "resize": ("resize_finish", RESIZED),
    "migrate": ("resize_finish", RESIZED),
    "confirmResize": ("", ACTIVE[0]),
    "revertResize": ("resize_reverting", ACTIVE[0]),
    "changePassword": ("updating_password", ACTIVE[0]),
    "restore": ("restoring", ACTIVE[0]),
    "createImage": ("image_uploading", ACTIVE[0]),
    "createBackup": ("image_uploading", ACTIVE[0]),
}
BUILDS: tuple[Json, ...] = (
    {"task_state": "scheduling"},
    {"task_state": "networking", "host": "host1"},
    {"task_state": "spawning", "host": "host1"},
    *ACTIVE,
)
NO_HOST = "No valid host was found. 2 hosts: RamFilter removed 2."
FAILS: tuple[Json, ...] = (
    {"task_state": "scheduling"},
    {
        "status": "ERROR",
        "vm_state": "error",
        "fault": {"code": 500, "message": NO_HOST, "created": "2026-01-01T00:00:00Z"},
    },
)
NEVER_ENDS: tuple[Json, ...] = ({"task_state": "scheduling"},)

EXTENDED = {
    "vm_state": "OS-EXT-STS:vm_state",
    "task_state": "OS-EXT-STS:task_state",
    "power_state": "OS-EXT-STS:power_state",
    "host": "OS-EXT-SRV-ATTR:host",
}


class Refused(Exception):
    """Becomes an error in OpenStack's form."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ComputeApi:
    """`script` is what servers made from now on go through: the next state at each time one is asked for."""

    def __init__(self, *, max_limit: int = 1000, password: tuple[str, str] | None = None) -> None:
        self.servers: dict[str, Json] = {}
        self.flavors: dict[str, Json] = {}
        self.images: dict[str, Json] = {}
        # Public keys by the name of their key pair.
        self.keypairs: dict[str, str] = {}
        self.bytes: dict[str, bytes] = {}
        self.services: list[Json] = []
        self.hypervisors: list[Json] = []
        self.overviews: dict[int, Json] = {}  # by id of the hypervisor; what is not said is empty
        self.audits: dict[int, Json] = {}
        self.diagnoses: dict[str, Json] = {}
        self.actions: dict[str, Json] = {}  # by key: how server actions end, where they do not end well
        self.action_messages: dict[str, str] = {}  # by key: why server actions fail
        self.instance_actions: dict[str, list[Json]] = {}
        self.consoles: dict[str, str] = {}
        self.script: tuple[Json, ...] = ACTIVE
        self.requests: list[tuple[str, str, Any]] = []
        self.faults: list[tuple[str, str]] = []
        self.max_limit = max_limit
        self.password = password
        self.lock = threading.RLock()
        self._scripts: dict[str, list[Json]] = {}
        self._answered: dict[str, Json] = {}

    def order(self, *faults: str, method: str = "POST") -> None:
        """Faults of the next requests of this method: `lost` (done, but the answer is lost) or `busy` (503).

        The method EARLY knows `full` (507 before the body is read) for any method.
        """
        self.faults += [(method, fault) for fault in faults]

    def add_flavor(self, name: str = "m1.small", identity: str | None = None, **more: Any) -> Json:
        identity = identity or str(uuid.uuid4())
        sizes = {"ram": 512, "vcpus": 1, "disk": 1, "swap": "", "OS-FLV-EXT-DATA:ephemeral": 0}
        public = {"os-flavor-access:is_public": True, "rxtx_factor": 1.0, "extra_specs": {}}
        self.flavors[identity] = {"id": identity, "name": name, **sizes, **public, **more}
        return self.flavors[identity]

    def add_image(self, name: str = "guest", **more: Any) -> Json:
        identity = str(uuid.uuid4())
        self.images[identity] = {
            "id": identity,
            "name": name,
            "status": "active",
            "disk_format": "qcow2",
            "container_format": "bare",
            "size": 1024,
            "tags": [],
            **more,
        }
        return self.images[identity]

    def make_image_of(self, key: str, name: str) -> str:
        """The image of an action; of one that fails it is gone."""
        image = self.add_image(name)
        if key in self.action_messages:
            del self.images[image["id"]]
        return str(image["id"])

    def add_server(self, name: str, script: tuple[Json, ...] = ACTIVE, **more: Any) -> Json:
        identity = str(uuid.uuid4())
        server: Json = {
            "id": identity,
            "name": name,
            "status": "BUILD",
            "tenant_id": "admin",
            "user_id": "admin",
            "metadata": {},
            "addresses": {},
            "flavor": {"id": next(iter(self.flavors), "gone")},
            "image": {"id": next(iter(self.images), "gone")},
            "created": "2026-01-01T00:00:00Z",
            "updated": "2026-01-01T00:00:00Z",
            **dict.fromkeys(EXTENDED.values()),
            "OS-EXT-STS:power_state": 0,
            **more,
        }
        self.servers[identity] = server
        self._scripts[identity] = list(script)
        return server

    def rescript(self, identity: str, script: tuple[Json, ...]) -> None:
        """From now on this server goes through other states."""
        with self.lock:
            self._scripts[identity] = list(script)

    # -- what requests do ------------------------------------------------------------------------------------------

    def create_servers(self, body: Json, request_uuid: str | None) -> Json:
        if request_uuid and request_uuid in self._answered:
            return self._answered[request_uuid]
        requested = body["server"]
        if requested["flavorRef"] not in self.flavors or requested["imageRef"] not in self.images:
            raise Refused(400, "no such flavor or image")
        count = requested.get("max_count", 1)
        reservation = f"r-{uuid.uuid4().hex[:8]}"
        names = [requested["name"]] if count == 1 else [f"{requested['name']}-{number + 1}" for number in range(count)]
        new_servers = [
            self.add_server(
                name,
                self.script,
                reservation=reservation,
                metadata=requested.get("metadata", {}),
                flavor={"id": requested["flavorRef"]},
                image={"id": requested["imageRef"]},
            )
            for name in names
        ]
        if requested.get("return_reservation_id"):
            answer: Json = {"reservation_id": reservation}
        else:
            answer = {"server": {"id": new_servers[0]["id"], "links": [], "adminPass": "s3cret"}}
        if request_uuid:
            self._answered[request_uuid] = answer
        return answer

    def server(self, identity: str) -> Json:
        server = self.servers.get(identity)
        if server is None:
            raise Refused(404, f"Instance {identity} could not be found.")
        script = self._scripts[identity]
        if script:
            state = script.pop(0) if len(script) > 1 else script[0]
            server |= {"status": state.get("status", "BUILD")}
            server |= {long: state.get(short, server.get(long)) for short, long in EXTENDED.items()}
            server["OS-EXT-STS:task_state"] = state.get("task_state")
            if "fault" in state:
                server["fault"] = state["fault"]
            if state.get("gone"):
                del self.servers[identity]
                raise Refused(404, f"Instance {identity} could not be found.")
        return server

    def delete_server(self, identity: str) -> None:
        self.server(identity)
        deleting = {"status": "ACTIVE", "task_state": "deleting", "host": "host1"}
        self._scripts[identity] = [deleting, {"gone": True}]

    def act(self, identity: str, key: str) -> None:
        """A server action: in progress at the next question, done at the one after. Scripts of `actions` go before."""
        vm_state = self.server(identity)[EXTENDED["vm_state"]]
        begun, ended = ACTIONS[key]
        ending = self.actions.get(key, ended)
        action = {"action": key.removeprefix("os-"), "message": self.action_messages.get(key)}
        self.instance_actions.setdefault(identity, []).insert(0, action)
        status = str(status_of(vm_state, begun or None))
        self._scripts[identity] = [{"status": status, "task_state": begun or None, "host": "host1"}, ending]

    def page(self, key: str, items: list[Json], query: Json, path: str) -> Json:
        """A page of a listing, with the link to the next one as the two APIs have it."""
        limit = min(int(query.get("limit", self.max_limit)), self.max_limit)
        if marker := query.get("marker"):
            ids = [item["id"] for item in items]
            if marker not in ids:
                raise Refused(400, f"marker [{marker}] not found")
            items = items[ids.index(marker) + 1 :]
        answer: Json = {key: items[:limit]}
        if len(items) > limit:
            href = f"{path}?marker={items[limit - 1]['id']}"
            answer |= {"next": href} if key == "images" else {f"{key}_links": [{"rel": "next", "href": href}]}
        return answer
