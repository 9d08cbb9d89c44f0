"""A private Keystone, from its package in .venv/openstack, which tools/setup makes; SQLite, Fernet tokens."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import urllib3

from tests.servers.openstack_server import OpenStackServer
from tests.servers.private_server import ServerError

PROCESS = Path(__file__).with_name("keystone_process.py")
PYTHON = Path(sys.prefix) / "openstack" / "bin" / "python"
PASSWORD = "secret"
REGION = "RegionOne"
DOMAIN = {"name": "Default"}
CONF = """
[DEFAULT]
log_file = {folder}/keystone.log
[database]
connection = sqlite:///{folder}/keystone.sqlite
[fernet_tokens]
key_repository = {folder}/fernet
[fernet_receipts]
key_repository = {folder}/fernet
[credential]
key_repository = {folder}/fernet
[identity]
password_hash_algorithm = bcrypt
password_hash_rounds = 4
[cache]
enabled = {cached}
backend = dogpile.cache.memory
[oslo_messaging_notifications]
driver = noop
"""


def openstack_python() -> Path:
    if not PYTHON.exists():
        raise ServerError(f"{PYTHON} is missing: run tools/setup test")
    return PYTHON


class Keystone(OpenStackServer):
    """The user admin has the role admin in the project admin, and in the system. `call` is for it; `token` for any user."""

    name = "keystone"
    ports_needed = 1
    _own_token: str | None = None

    def __init__(self, directory: Path | None = None, *, cached: bool = False, threads: int = 4) -> None:
        """`cached`: in its memory. Then a request takes a fifth of the time, and the memory grows. `threads`: one, where many write:
        SQLite refuses transactions that read before they write ("database is locked").
        """
        super().__init__(directory)
        self._cached = cached
        self._threads = threads

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}/v3"

    def prepare(self) -> None:
        conf = self.directory / "keystone.conf"
        conf.write_text(CONF.format(folder=self.directory, cached=str(self._cached).lower()))

    def command(self) -> list[str]:
        conf = self.directory / "keystone.conf"
        return [str(openstack_python()), "-P", str(PROCESS), str(conf), str(self.ports[0]), str(self._threads)]

    def token(self, user: str = "admin", password: str = PASSWORD, scope: Any = None) -> str:
        """A new token; `scope` as Keystone has it, by default the project admin; "unscoped" is one."""
        name = {"name": user, "domain": DOMAIN, "password": password}
        return self.authenticate({"methods": ["password"], "password": {"user": name}}, scope or of_project("admin"))

    def authenticate(self, identity: Mapping[str, Any], scope: Any = None) -> str:
        auth = {"auth": {"identity": identity, **({} if scope is None else {"scope": scope})}}
        answer = urllib3.request("POST", f"{self.url}/auth/tokens", json=auth, retries=False, timeout=60)
        assert answer.status == 201, answer.data
        return answer.headers["X-Subject-Token"]

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """What the administrator is answered."""
        if self._own_token is None:
            self._own_token = self.token()
        token = {"X-Auth-Token": self._own_token} | {name.replace("_", "-"): value for name, value in headers.items()}
        answer = urllib3.request(method, f"{self.url}{path}", json=body, headers=token, retries=False, timeout=60)
        assert answer.status < 300, answer.data
        return answer.json() if answer.data else None

    def add_project(self, name: str) -> str:
        return str(self.call("POST", "/projects", {"project": {"name": name}})["project"]["id"])

    def add_user(self, name: str, **roles: str) -> str:
        """`roles`: the role in each project. Its password is PASSWORD."""
        user = self.call("POST", "/users", {"user": {"name": name, "password": PASSWORD}})["user"]["id"]
        for project, role in roles.items():
            self.grant(user, project, role)
        return str(user)

    def grant(self, user: str, project: str, role: str) -> None:
        ids = [self.id_of("projects", project), self.id_of("roles", role)]
        self.call("PUT", f"/projects/{ids[0]}/users/{user}/roles/{ids[1]}")

    def id_of(self, kind: str, name: str) -> str:
        (resource,) = self.call("GET", f"/{kind}?name={name}")[kind]
        return str(resource["id"])

    def client_environment(self, user: str = "admin", project: str = "admin") -> dict[str, str]:
        """OS_* variables for the unchanged `openstack` client."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        return kept | {
            "OS_AUTH_URL": self.url,
            "OS_USERNAME": user,
            "OS_PASSWORD": PASSWORD,
            "OS_PROJECT_NAME": project,
            "OS_USER_DOMAIN_NAME": "Default",
            "OS_PROJECT_DOMAIN_NAME": "Default",
            "OS_REGION_NAME": REGION,
            "OS_IDENTITY_API_VERSION": "3",
        }


def of_project(name: str) -> dict[str, Any]:
    return {"project": {"name": name, "domain": DOMAIN}}
