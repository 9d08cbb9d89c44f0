"""Serves the books of `compute_api` over HTTP on loopback."""

import base64
import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from tests.fakes.compute_api import ComputeApi, Json, Refused


class ApiServer(ComputeApi):
    """As a context manager it serves at `url`."""

    port = 0
    stopped = False

    def start(self) -> None:
        """Listen, on the port of the last time if there was one."""
        self.stopped = False
        handler = type("Handler", (Handler,), {"api": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        self.stopped = True
        self._http.shutdown()
        self._http.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()


class Handler(BaseHTTPRequestHandler):
    api: ApiServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Tests read the books."""

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_PUT(self) -> None:
        self._serve("PUT")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def _serve(self, method: str) -> None:
        self.location: str | None = None
        parts = urlsplit(self.path)
        if self.api.stopped:  # a connection that was open when it stopped
            self.close_connection = True
            return
        if self._fault("EARLY") == "full":
            # As a server does whose disk is full: it answers in the middle of the upload, and hangs up.
            self.rfile.read(100_000)
            self._answer(507, {"title": "Insufficient Storage", "message": "The image store is full."})
            self.close_connection = True
            return
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_json = self.headers.get("Content-Type") == "application/json"
        body = json.loads(data) if is_json else data
        with self.api.lock:
            self.api.requests.append((method, self.path, body))
            fault = self._fault(method)
            if fault == "busy":
                self._answer(503, {"serviceUnavailable": {"code": 503, "message": "The queue is full."}})
                return
            try:
                self._authorized()
                query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
                status, answer = self._route(method, unquote(parts.path), query, body)
            except Refused as refused:
                status, answer = refused.status, {"badRequest": {"code": refused.status, "message": str(refused)}}
        if fault == "lost":
            self.close_connection = True
            return
        self._answer(status, answer)

    def _fault(self, method: str) -> str:
        for index, (of_method, fault) in enumerate(self.api.faults):
            if of_method == method:
                del self.api.faults[index]
                return fault
        return ""

    def _authorized(self) -> None:
        if self.api.password is None:
            return
        user = ":".join(self.api.password).encode()
        if self.headers.get("Authorization") != f"Basic {base64.b64encode(user).decode()}":
            raise Refused(401, "Unauthorized")

    def _answer(self, status: int, answer: Json | None) -> None:
        data = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.location is not None:
            self.send_header("Location", self.location)
        self.end_headers()
        self.wfile.write(data)

    def _route(self, method: str, path: str, query: Json, body: Any) -> tuple[int, Json | None]:
        words = path.strip("/").split("/")
        for name, route in ROUTES:
            wanted_method, _, pattern = name.partition(" ")
            path_match = _match(pattern.split("/"), words)
            if wanted_method == method and path_match is not None:
                return route(self, query, body, *path_match)
        raise Refused(404, f"no route {method} {path}")


Route = Callable[..., tuple[int, Json | None]]
ROUTES: list[tuple[str, Route]] = []


def route(name: str) -> Callable[[Route], Route]:
    def keep(function: Route) -> Route:
        ROUTES.append((name, function))
        return function

    return keep


def _match(pattern: list[str], words: list[str]) -> list[str] | None:
    if len(pattern) != len(words):
        return None
    if any(want not in {"*", word} for want, word in zip(pattern, words, strict=True)):
        return None
    return [word for want, word in zip(pattern, words, strict=True) if want == "*"]


def _found(books: dict[str, Json], identity: str, kind: str) -> Json:
    if identity not in books:
        raise Refused(404, f"{kind} {identity} could not be found.")
    return books[identity]


def _servers(api: ComputeApi, query: Json) -> Iterator[Json]:
    """Newest first, as OpenStack lists them."""
    for server in reversed([api.server(identity) for identity in list(api.servers)]):
        is_match = (
            re.search(query.get("name", ""), server["name"]) is not None
            and query.get("status", server["status"]) == server["status"]
            and query.get("reservation_id", server.get("reservation")) == server.get("reservation")
        )
        if is_match:
            yield server


@route("GET v2.1/servers/detail")
def list_servers(http: Handler, query: Json, body: Any) -> tuple[int, Json | None]:
    return 200, http.api.page("servers", list(_servers(http.api, query)), query, "/v2.1/servers/detail")


@route("GET v2.1/servers/*")
def show_server(http: Handler, query: Json, body: Any, identity: str) -> tuple[int, Json | None]:
    return 200, {"server": http.api.server(identity)}


@route("POST v2.1/servers")
def create_servers(http: Handler, query: Json, body: Any) -> tuple[int, Json | None]:
    return 202, http.api.create_servers(body, http.headers.get("X-Minova-Request-UUID"))


@route("DELETE v2.1/servers/*")
def delete_server(http: Handler, query: Json, body: Any, identity: str) -> tuple[int, Json | None]:
    http.api.delete_server(identity)
    return 204, None


@route("GET v2.1/servers/*/diagnosis")
def diagnosis(http: Handler, query: Json, body: Any, identity: str) -> tuple[int, Json | None]:
    return 200, _found(http.api.diagnoses, identity, "Diagnosis of")


@route("GET v2.1/servers/*/os-instance-actions")
def instance_actions(http: Handler, query: Json, body: Any, identity: str) -> tuple[int, Json | None]:
    return 200, {"instanceActions": http.api.instance_actions.get(identity, [])}


@route("POST v2.1/servers/*/action")
def act(http: Handler, query: Json, body: Any, identity: str) -> tuple[int, Json | None]:
    if "os-getConsoleOutput" not in body:
        (key,) = body
        if key in {"createImage", "createBackup"}:
            image = http.api.make_image_of(key, body[key]["name"])
            http.location = f"http://images/v2/images/{image}"
        http.api.act(identity, key)
        if key == "rebuild":
            return 202, {"server": {**http.api.servers[identity], "adminPass": "made-up"}}
        return (200, {"adminPass": body[key].get("adminPass", "made-up")}) if key == "rescue" else (202, None)
    text = http.api.consoles.get(identity, "")
    length = body["os-getConsoleOutput"].get("length")
    return 200, {"output": text if length is None else "".join(text.splitlines(keepends=True)[-length:])}


@route("GET v2.1/flavors")
@route("GET v2.1/flavors/detail")
def list_flavors(http: Handler, query: Json, body: Any) -> tuple[int, Json | None]:
    public = [
        flavor for flavor in http.api.flavors.values() if flavor["os-flavor-access:is_public"] or "is_public" in query
    ]
    return 200, http.api.page("flavors", public, query, "/v2.1/flavors/detail")


@route("GET v2.1/flavors/*")
def show_flavor(http: Handler, query: Json, body: Any, identity: str) -> tuple[int, Json | None]:
    return 200, {"flavor": _found(http.api.flavors, identity, "Flavor")}


@route("POST v2.1/flavors")
def create_flavor(http: Handler, query: Json, body: Any) -> tuple[int, Json | None]:
    requested = body["flavor"]
    if any(flavor["name"] == requested["name"] for flavor in http.api.flavors.values()):
        raise Refused(409, f"Flavor with name {requested['name']} already exists.")
    more = {key: value for key, value in requested.items() if key not in {"name", "id"}}
    return 200, {"flavor": http.api.add_flavor(requested["name"], requested.get("id"), **more)}


@route("DELETE v2.1/flavors/*")
def delete_flavor(http: Handler, query: Json, body: Any, identity: str) -> tuple[int, Json | None]:
    _found(http.api.flavors, identity, "Flavor")
    del http.api.flavors[identity]
    return 202, None


@route("GET v2/images")
def list_images(http: Handler, query: Json, body: Any) -> tuple[int, Json | None]:
    images = [image for image in http.api.images.values() if query.get("name", image["name"]) == image["name"]]
    return 200, http.api.page("images", images, query, "/v2/images")


@route("GET v2.1/servers/*/os-interface")
def interfaces(http: Handler, query: Json, body: Any, identity: str) -> tuple[int, Json | None]:
    """The id of a network is its name."""
    addresses = http.api.server(identity)["addresses"]
    attachments = [
        {"net_id": name, "fixed_ips": [{"ip_address": entry["addr"]} for entry in entries]}
        for name, entries in addresses.items()
    ]
    return 200, {"interfaceAttachments": attachments}


@route("GET v2.1/os-keypairs/*")
def show_keypair(http: Handler, query: Json, body: Any, name: str) -> tuple[int, Json | None]:
    if name not in http.api.keypairs:
        raise Refused(404, f"Keypair {name} could not be found.")
    return 200, {"keypair": {"name": name, "public_key": http.api.keypairs[name]}}


@route("GET v2/images/*")
def show_image(http: Handler, query: Json, body: Any, identity: str) -> tuple[int, Json | None]:
    return 200, _found(http.api.images, identity, "Image")


@route("POST v2/images")
def create_image(http: Handler, query: Json, body: Any) -> tuple[int, Json | None]:
    return 201, http.api.add_image(**{**body, "status": "queued", "size": None})


@route("PUT v2/images/*/file")
def upload(http: Handler, query: Json, body: Any, identity: str) -> tuple[int, Json | None]:
    if b"CORRUPT" in body:
        raise Refused(400, "The image is not qcow2: bad header.")
    http.api.bytes[identity] = body
    _found(http.api.images, identity, "Image").update(status="active", size=len(body))
    return 204, None


@route("DELETE v2/images/*")
def delete_image(http: Handler, query: Json, body: Any, identity: str) -> tuple[int, Json | None]:
    _found(http.api.images, identity, "Image")
    del http.api.images[identity]
    return 204, None


@route("GET v2.1/os-hypervisors/detail")
def list_hypervisors(http: Handler, query: Json, body: Any) -> tuple[int, Json | None]:
    return 200, {"hypervisors": http.api.hypervisors}


@route("GET v2.1/os-hypervisors")
def list_brief_hypervisors(http: Handler, query: Json, body: Any) -> tuple[int, Json | None]:
    return 200, {"hypervisors": http.api.hypervisors}


@route("GET v2.1/os-hypervisors/audits")
def list_audits(http: Handler, query: Json, body: Any) -> tuple[int, Json | None]:
    return 200, {"audits": [{"id": key, **audit} for key, audit in http.api.audits.items()]}


@route("GET v2.1/os-hypervisors/*/overview")
def overview(http: Handler, query: Json, body: Any, identity: str) -> tuple[int, Json | None]:
    lists = ("numa_cells", "pci_device_pools", "pci_devices", "servers", "moves")
    empty: Json = {name: [] for name in lists}
    ratios = {"allocation_ratios": {"cpu": 4.0, "ram": 1.0, "disk": 1.0}, "last_audit": None}
    return 200, {"overview": {**empty, **ratios, **http.api.overviews.get(int(identity), {})}}


@route("POST v2.1/os-hypervisors/*/action")
def audit(http: Handler, query: Json, body: Any, identity: str) -> tuple[int, Json | None]:
    if body != {"audit": None}:
        raise Refused(400, f"no such action: {body}")
    return 200, {"audit": http.api.audits[int(identity)]}


@route("GET v2.1/os-hypervisors/statistics")
def statistics(http: Handler, query: Json, body: Any) -> tuple[int, Json | None]:
    sums = {"count": len(http.api.hypervisors)}
    for key in ("vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "running_vms"):
        sums[key] = sum(hypervisor[key] for hypervisor in http.api.hypervisors)
    return 200, {"hypervisor_statistics": sums}


@route("GET v2.1/os-services")
def list_services(http: Handler, query: Json, body: Any) -> tuple[int, Json | None]:
    return 200, {
        "services": [
            service
            for service in http.api.services
            if query.get("host", service["host"]) == service["host"]
            and query.get("binary", service["binary"]) == service["binary"]
        ]
    }


@route("PUT v2.1/os-services/*")
def set_service(http: Handler, query: Json, body: Any, what: str) -> tuple[int, Json | None]:
    for service in http.api.services:
        if service["host"] == body["host"] and service["binary"] == body["binary"]:
            service["status"] = "enabled" if what == "enable" else "disabled"
            service["disabled_reason"] = body.get("disabled_reason")
            return 200, {"service": service}
    raise Refused(404, "no such service")
