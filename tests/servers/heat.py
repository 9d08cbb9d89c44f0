"""A private Heat, from its package: its API, and its engine. Stacks act by trusts, and guests signal with users of a domain of their own."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from tests.servers.keystone import PASSWORD, REGION
from tests.servers.openstack_server import OpenStackServer
from tests.servers.private_server import PrivateServer, ServerError

DOMAIN, OWNER, GUEST = "heat", "heat_stack_owner", "heat_stack_user"
CONF = """
[DEFAULT]
transport_url = {rabbitmq}
heat_metadata_server_url = {url}
region_name_for_services = {region}
stack_domain_admin = heat_domain_admin
stack_domain_admin_password = {password}
stack_user_domain_name = {domain}
num_engine_workers = 1
[database]
connection = {database}
[paste_deploy]
api_paste_config = {etc}/api-paste.ini
[clients_keystone]
auth_uri = {keystone}
[clients_heat]
url = {signals}/v1/%(tenant_id)s
[oslo_messaging_notifications]
driver = noop
[keystone_authtoken]
www_authenticate_uri = {keystone}
{login}
service_token_roles_required = false
[trustee]
{login}
"""
LOGIN = """auth_type = password
auth_url = {keystone}
username = heat
password = {password}
user_domain_name = Default
"""
PROJECT = """project_name = service
project_domain_name = Default
"""


def make_users(administrator: Any) -> None:
    """As Heat's installation guide. `administrator`: a connection of the SDK."""
    identity = administrator.identity
    admin = identity.find_role("admin")
    heat = identity.create_user(name="heat", password=PASSWORD)
    identity.assign_project_role_to_user(identity.find_project("service"), heat, admin)
    owner, _ = (identity.create_role(name=name) for name in (OWNER, GUEST))
    identity.assign_project_role_to_user(administrator.current_project_id, administrator.current_user_id, owner)
    domain = identity.create_domain(name=DOMAIN)
    user = identity.create_user(name="heat_domain_admin", password=PASSWORD, domain_id=domain.id)
    identity.assign_domain_role_to_user(domain, user, admin)


class Engine(PrivateServer):
    name = "heat-engine"

    def __init__(self, executables: Path, conf: Path) -> None:
        super().__init__()
        self._executables, self._conf = executables, conf

    def prepare(self) -> None:
        """Its configuration is the API's."""

    def command(self) -> list[str]:
        return [str(self._executables / "heat-engine"), "--config-file", str(self._conf)]

    def answers(self) -> bool:
        """One of the last things that it tells before it listens."""
        return "Starting engine_worker" in self.log


class Heat(OpenStackServer):
    """Its API. `outside`: the address at which guests reach its port."""

    name = "heat"
    ready_status = 300
    ports_needed = 1

    def __init__(self, executables: Path, keystone: str, rabbitmq: str, database: str, outside: str) -> None:
        super().__init__()
        self._executables, self._keystone, self._outside = executables, keystone, outside
        self._rabbitmq, self._database = rabbitmq, database

    @property
    def conf(self) -> Path:
        return self.directory / "heat.conf"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    def prepare(self) -> None:
        login = LOGIN.format(keystone=self._keystone, password=PASSWORD)
        given = {
            "keystone": self._keystone,
            "rabbitmq": self._rabbitmq,
            "database": self._database.replace("+psycopg:", "+psycopg2:"),
            "url": self.url,
            "signals": f"http://{self._outside}:{self.ports[0]}",
        }
        etc = self._executables.parent / "etc" / "heat"
        text = CONF.format(**given, login=login, region=REGION, password=PASSWORD, domain=DOMAIN, etc=etc)
        self.conf.write_text(text.replace("[trustee]", f"{PROJECT}[trustee]"))
        sync = [str(self._executables / "heat-manage"), "--config-file", str(self.conf), "db_sync"]
        done = subprocess.run(sync, env=self.environment(), capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise ServerError(f"heat-manage db_sync: {done.stdout}{done.stderr}")

    def command(self) -> list[str]:
        words = ["--host", "127.0.0.1", "--port", str(self.ports[0]), "--", "--config-file", str(self.conf)]
        return [str(self._executables / "heat-wsgi-api"), *words]
