"""Clients that change things and clients that read, and what they were answered, while a broker may be in an alarm."""

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Self

import urllib3

# Seconds until a client that was refused tries again, and between two other requests of one client.
PAUSE_OF_REFUSED, PAUSE = 0.5, 1.0
REFUSED = 503
ANSWERS = frozenset({200, 201, 202, 204, REFUSED})
# Of requests for servers without a network.
HEADERS = {"X-OpenStack-Nova-API-Version": "2.37"}
# Networks of each client that deletes some.
STOCK = 6


class Answer(NamedTuple):
    """`key`: by which `Clients.executed` has the change, if it was executed. `is_unsent`: it says that nothing was sent."""

    kind: str
    begun: float
    took: float
    status: int
    key: str = ""
    is_unsent: bool = False


class Creation(NamedTuple):
    """How something with a name is made, and where the names of all are listed."""

    path: str
    body: Callable[[str], Any]
    plural: str
    paged: str = ""


def creations(server: dict[str, Any]) -> dict[str, Creation]:
    """`server`: the body of a request for one, without its name."""
    policies = ["anti-affinity"]
    return {
        "server": Creation("/v2.1/servers", lambda name: {"server": server | {"name": name}}, "servers", "?limit=1000"),
        "image": Creation("/v2/images", lambda name: {"name": name}, "images", "?limit=1000"),
        "network": Creation("/network/v2.0/networks", lambda name: {"network": {"name": name}}, "networks"),
        "group": Creation(
            "/v2.1/os-server-groups",
            lambda name: {"server_group": {"name": name, "policies": policies}},
            "server_groups",
        ),
    }


class Clients:
    """Until the block ends each client sends one request after the other. `servers`: of clients that act on servers of their own."""

    def __init__(self, url: str, counts: dict[str, int], server: dict[str, Any], servers: Iterable[str]) -> None:
        self._http = urllib3.PoolManager(maxsize=sum(counts.values()), retries=False, timeout=60)
        self._url = url
        self._creations = creations(server)
        self._servers = list(servers)
        self._numbers = itertools.count()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._failures: list[BaseException] = []
        self.answers: list[Answer] = []
        left = list(self._servers)
        others: dict[str, Callable[[], None]] = {
            "read": lambda: self._gets("read", "/v2.1/servers?limit=5"),
            "idle": lambda: self._gets("idle", "/v2.1/"),
            "deletion": self._deletes_networks,
            "action": lambda: self._reboots(left.pop()),
            "rename": lambda: self._renames(left.pop()),
        }
        self._threads = [
            threading.Thread(target=self._guarded, args=(others.get(kind) or self._creates_of(kind),), daemon=True)
            for kind, count in counts.items()
            for _ in range(count)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]

    @property
    def failed(self) -> bool:
        """Whether a client has ended by an error, which the end of the block raises."""
        return bool(self._failures)

    def of(self, *kinds: str, status: int | None = None) -> list[Answer]:
        with self._lock:
            answers = list(self.answers)
        return [answer for answer in answers if answer.kind in kinds and status in (None, answer.status)]

    def executed(self, kind: str) -> set[str]:
        """The keys of the changes that show."""
        if kind in self._creations:
            return set(self._names(kind))
        if kind == "deletion":
            there = {network["id"] for network in self._get("/network/v2.0/networks")["networks"]}
            return {answer.key for answer in self.of(kind)} - there
        if kind == "rename":
            return {self._get(f"/v2.1/servers/{uuid}")["server"]["name"] for uuid in self._servers}
        return {
            action["request_id"]
            for uuid in self._servers
            for action in self._get(f"/v2.1/servers/{uuid}/os-instance-actions")["instanceActions"]
        }

    def _names(self, kind: str) -> Iterator[str]:
        creation = self._creations[kind]
        path, marker = creation.path + creation.paged, ""
        while resources := self._get(path + marker)[creation.plural]:
            yield from (resource["name"] for resource in resources)
            if not creation.paged:
                return
            marker = f"&marker={resources[-1]['id']}"

    def _get(self, path: str) -> Any:
        return self._http.request("GET", self._url + path).json()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  - the test raises it
            self._failures.append(error)

    def _ask(self, kind: str, method: str, path: str, body: Any = None, key: str = "") -> Any:
        """Notes the answer, with the request's ID if there is no other key. Waits a moment if it was refused."""
        begun = time.monotonic()
        headers = HEADERS if kind == "server" else {}
        more = {} if body is None else {"json": body}
        answer = self._http.request(method, self._url + path, headers=headers, **more)
        allowed = ANSWERS | {409} if kind == "action" else ANSWERS
        assert answer.status in allowed, f"{method} {path}: {answer.status} {answer.data!r}"
        key = key or answer.headers.get("x-openstack-request-id", "")
        noted = Answer(kind, begun, time.monotonic() - begun, answer.status, key, b"was not sent" in answer.data)
        with self._lock:
            self.answers.append(noted)
        if answer.status == REFUSED:
            self._stopping.wait(PAUSE_OF_REFUSED)
        return answer

    def _gets(self, kind: str, path: str) -> None:
        while not self._stopping.wait(PAUSE):
            self._ask(kind, "GET", path)

    def _creates_of(self, kind: str) -> Callable[[], None]:
        return lambda: self._creates(kind)

    def _creates(self, kind: str) -> None:
        creation = self._creations[kind]
        while not self._stopping.wait(0 if kind == "server" else PAUSE):
            name = f"{kind} {next(self._numbers)}"
            self._ask(kind, "POST", creation.path, creation.body(name), name)

    def _deletes_networks(self) -> None:
        """Keeps a stock of them, for the time in which none are made."""
        path, body = f"{self._url}/network/v2.0/networks", {"network": {"name": "to be deleted"}}
        stock: list[str] = []
        while not self._stopping.wait(PAUSE):
            request = self._http.request("POST", path, json=body)
            assert request.status in (201, REFUSED), request.data
            if request.status != REFUSED:
                stock.append(request.json()["network"]["id"])
            if stock and (request.status == REFUSED or len(stock) > STOCK):
                network = stock.pop(0)
                self._ask("deletion", "DELETE", f"/network/v2.0/networks/{network}", key=network)

    def _reboots(self, server: str) -> None:
        while not self._stopping.wait(PAUSE):
            self._ask("action", "POST", f"/v2.1/servers/{server}/action", {"reboot": {"type": "HARD"}})

    def _renames(self, server: str) -> None:
        """Until one is refused, so that its name stays the server's if it was executed all the same."""
        while not self._stopping.wait(PAUSE):
            name = f"renamed {next(self._numbers)}"
            answer = self._ask("rename", "PUT", f"/v2.1/servers/{server}", {"server": {"name": name}}, name)
            if answer.status == REFUSED:
                return
