"""Users of the cloud: each creates and deletes servers of a project of its own, and repeats what is not answered."""

import threading
import time
import uuid
from random import Random
from typing import Any

import urllib3

from tests.soak.journal import Journal

# Seconds that a user waits for one answer, and goes on repeating a request.
PATIENCE_ONCE = 30.0
PATIENCE = 240.0
MAX_SERVERS = 14
WEIGHTS = {"single": 40, "several": 12, "pinned": 14, "in a group": 12, "delete": 34, "delete at once": 8, "move": 30}
FLAVORS = {"single": "tiny", "several": "tiny", "pinned": "pinned", "in a group": "tiny", "delete at once": "tiny"}
# From one to the other and back.
SIZES = {"tiny": "small", "small": "tiny"}
POLICIES = ("anti-affinity", "affinity", "soft-anti-affinity")


class Refused(Exception):
    """An answer that no repetition would change."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"{status} {body[:300]!r}")
        self.status = status


# Of the soft policies.
VERSION = {"OpenStack-API-Version": "compute 2.15"}
# Of block_migration `auto`.
LIVE_VERSION = {"OpenStack-API-Version": "compute 2.25"}


class Client:
    """Speaks to the APIs in turn, as behind a load balancer, and repeats a request until one answers."""

    def __init__(self, urls: list[str], user: str, journal: Journal, random: Random) -> None:
        self._urls = urls
        self._headers = {"X-Auth-Token": f"{user}:{user}"}
        self._journal = journal
        self._random = random
        timeout = urllib3.Timeout(connect=5.0, read=PATIENCE_ONCE)
        self._http = urllib3.PoolManager(timeout=timeout, retries=False)

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        """The answer. Refused: a status that a repetition would not change, or nothing within PATIENCE. The time in which the
        cloud takes no changes by design does not count.
        """
        begun = patient_since = time.monotonic()
        pause = 0.2
        while True:
            reason = self._try(method, path, body, headers)
            if not isinstance(reason, str):
                self._journal.waited(f"{method} {path.partition('?')[0]}", time.monotonic() - begun)
                return reason[0]
            self._journal.repeated(reason)
            if self._journal.is_recovering.is_set():
                patient_since = time.monotonic()
            elif time.monotonic() - patient_since > PATIENCE:
                raise Refused(0, f"nothing for {PATIENCE:.0f} s, at last {reason}".encode())
            time.sleep(pause * self._random.uniform(0.5, 1.0))
            pause = min(pause * 1.5, 2.0)

    def _try(self, method: str, path: str, body: Any, headers: dict[str, str] | None) -> tuple[Any] | str:
        """The answer in a tuple, or why the request is to be repeated."""
        url = self._random.choice(self._urls)
        try:
            answer = self._http.request(method, url + path, json=body, headers=self._headers | (headers or {}))
        except urllib3.exceptions.HTTPError as error:
            return type(error).__name__
        if answer.status >= 500:
            if answer.status == 500:
                self._journal.violation(f"{method} {path}: 500 {answer.data[:300]!r}")
            return str(answer.status)
        if answer.status in {400, 404} and url == self._journal.misled_url:
            return str(answer.status)
        if answer.status == 406:  # an API of the last release, which serves 2.1 alone
            return str(answer.status)
        if answer.status >= 300:
            raise Refused(answer.status, answer.data)
        return (answer.json() if answer.data else None,)


class User(threading.Thread):
    """Works until `stopping` is set, and ends what it is at then."""

    def __init__(self, name: str, seed: int, urls: list[str], image: str, journal: Journal, pause: float) -> None:
        super().__init__(name=name, daemon=True)
        self._random = Random(f"{seed} {name}")
        self._client = Client(urls, name, journal, self._random)
        self._journal = journal
        self._image = image
        self._pause = pause
        self._groups: list[str] = []
        self._numbers = 0
        self.stopping = threading.Event()
        # It has made its groups.
        self.is_ready = threading.Event()

    def run(self) -> None:
        try:
            self._groups = [self._new_group(policy) for policy in POLICIES]
            self.is_ready.set()
            while not self.stopping.wait(self._random.expovariate(1 / self._pause)):
                self._act()
        except Exception as error:  # noqa: BLE001  - whatever it is, it is reported
            self._journal.violation(f"{self.name}: {error!r}")

    def _new_group(self, policy: str) -> str:
        body = {"server_group": {"name": policy, "policies": [policy]}}
        return str(self._client.ask("POST", "/v2.1/os-server-groups", body, VERSION)["server_group"]["id"])

    def _act(self) -> None:
        kind = self._random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        own = self._servers()
        if len(own) >= MAX_SERVERS:
            kind = "delete"
        if kind == "delete":
            if own:
                self._remove(self._random.choice(own))
            return
        if kind == "move":
            if own and not self._journal.no_moves.is_set():
                self._move(self._random.choice(own))
            return
        server = self._boot(kind)
        if kind == "delete at once" and server:
            self._remove(server)

    def _servers(self) -> list[str]:
        servers = self._client.ask("GET", "/v2.1/servers?limit=1000")["servers"]
        return sorted(server["id"] for server in servers)

    def _boot(self, kind: str) -> str | None:
        """The id of the first server that was made."""
        self._numbers += 1
        count = self._random.randint(2, 6) if kind == "several" else 1
        server: dict[str, Any] = {
            "name": f"{self.name}-{self._numbers}",
            "flavorRef": FLAVORS[kind],
            "imageRef": self._image,
            "min_count": count,
            "max_count": count,
        }
        body: dict[str, Any] = {"server": server}
        if kind == "in a group":
            body["os:scheduler_hints"] = {"group": self._random.choice(self._groups)}
        request = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        self._journal.create_sent(request, kind, count)
        try:
            answer = self._client.ask("POST", "/v2.1/servers", body, {"X-Minova-Request-UUID": request})
        except Refused as error:
            self._journal.create_answered(request, refused=str(error))
            return None
        self._journal.create_answered(request)
        return str(answer["server"]["id"])

    def _move(self, server: str) -> None:
        """Some move that its state allows. What was asked for may be done when a repetition is refused."""
        try:
            shown = self._client.ask("GET", f"/v2.1/servers/{server}")["server"]
        except Refused:
            return
        kind, action = self._random.choice(_moves_of(shown["status"], shown["flavor"]["id"]))
        self._journal.move_sent(server)
        headers = LIVE_VERSION if kind == "live" else None
        try:
            self._client.ask("POST", f"/v2.1/servers/{server}/action", action, headers)
        except Refused as error:
            self._journal.move_answered(kind, refused=True)
            if error.status not in {400, 404, 409}:
                self._journal.violation(f"{kind} of {server}: {error}")
        else:
            self._journal.move_answered(kind, refused=False)

    def _remove(self, server: str) -> None:
        self._journal.delete_begun(server)
        try:
            self._client.ask("DELETE", f"/v2.1/servers/{server}")
        except Refused as error:
            # An earlier try, or an earlier delete of ours, has ended meanwhile.
            if error.status != 404:
                self._journal.violation(f"delete of {server}: {error}")
                return
        self._journal.delete_answered(server)


def _moves_of(status: str, flavor: str) -> list[tuple[str, dict[str, Any]]]:
    """By kind: the actions that a server of this status and flavor may be asked for."""
    if status == "VERIFY_RESIZE":
        return [("confirm", {"confirmResize": None}), ("revert", {"revertResize": None})]
    moves: list[tuple[str, dict[str, Any]]] = [
        ("migrate", {"migrate": None}),
        ("live", {"os-migrateLive": {"host": None, "block_migration": "auto"}}),
    ]
    if flavor in SIZES:
        moves.append(("resize", {"resize": {"flavorRef": SIZES[flavor]}}))
    return moves
