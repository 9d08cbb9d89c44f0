"""A private Glance, from its package in .venv/openstack, which tools/setup makes; SQLite, files in a folder, tokens of a Keystone."""

from __future__ import annotations

from pathlib import Path

from tests.servers.keystone import PASSWORD, Keystone, openstack_python
from tests.servers.openstack_server import OpenStackServer

PROCESS = Path(__file__).with_name("glance_process.py")
CONF = """
[DEFAULT]
log_file = {folder}/glance.log
node_staging_uri = file://{folder}/staging
[database]
connection = sqlite:///{folder}/glance.sqlite
[glance_store]
stores = file
default_store = file
filesystem_store_datadir = {folder}/images
[paste_deploy]
flavor = keystone
config_file = {folder}/paste.ini
[keystone_authtoken]
www_authenticate_uri = {keystone}
auth_url = {keystone}
auth_type = password
username = admin
password = {password}
user_domain_name = Default
project_name = admin
project_domain_name = Default
service_token_roles_required = false
[oslo_messaging_notifications]
driver = noop
"""


class Glance(OpenStackServer):
    name = "glance"
    ready_status = 300
    ports_needed = 1

    def __init__(self, keystone: Keystone, directory: Path | None = None, *, threads: int = 8) -> None:
        """`threads`: as a Keystone's."""
        super().__init__(directory)
        self._keystone = keystone
        self._threads = threads

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    def prepare(self) -> None:
        conf = CONF.format(folder=self.directory, keystone=self._keystone.url, password=PASSWORD)
        (self.directory / "glance-api.conf").write_text(conf)
        for folder in ("images", "staging"):
            (self.directory / folder).mkdir(exist_ok=True)

    def command(self) -> list[str]:
        return [
            str(openstack_python()),
            "-P",
            str(PROCESS),
            str(self.directory / "glance-api.conf"),
            str(self.ports[0]),
            str(self._threads),
        ]
