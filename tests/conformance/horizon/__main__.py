"""Horizon over HTTP, unchanged, in a browser, against the cloud of the Tempest run.

    python -m tests.conformance.horizon [--screenshots FOLDER]

An extra: the first run installs Horizon in an environment of its own. `tox -e horizon` runs it. Logs in, launches an instance with the
body of the form, and opens the pages of PAGES. Prints a line for each page. Exit code 0: each page has what it should show, and no
error; no answer of Horizon has a status of 400 or more,
except OWN.
"""

import argparse
import json
import logging
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import urllib3

from tests.conformance.clients import connect, installed
from tests.conformance.horizon.browser import Browser, browser
from tests.conformance.tempest.cloud import NETWORK, Cloud, cloud
from tests.servers.keystone import PASSWORD
from tests.servers.openstack_server import without_tests_variables
from tests.servers.private_server import PrivateServer

SETTINGS = Path(__file__).with_name("local_settings.py")
SERVER = "of-horizon"
# (name of the screenshot, path, a text that the page shows). {}: what `fill` has made.
PAGES = (
    ("overview", "/project/", "Limit Summary"),
    ("instances", "/project/instances/", SERVER),
    ("instance", "/project/instances/{server}/", "tempest.nano"),
    ("interfaces", "/project/instances/{server}/?tab=instance_details__interfaces", "10.90."),
    ("log", "/project/instances/{server}/?tab=instance_details__log", "Instance Console Log"),
    ("actions", "/project/instances/{server}/?tab=instance_details__audit", "Create"),
    ("console", "/project/instances/{server}/?tab=instance_details__console", "Instance Console"),
    ("images", "/project/images", "tempest-1"),
    ("key-pairs", "/project/key_pairs", "of-horizon"),
    ("server-groups", "/project/server_groups", "of-horizon"),
    ("api-access", "/project/api_access/", "Compute"),
    ("networks", "/project/networks/", NETWORK),
    ("network", "/project/networks/{network}/detail", "Network Type"),
    ("topology", "/project/network_topology/", NETWORK),
    ("routers", "/project/routers/", "No items to display"),
    ("security-groups", "/project/security_groups/", "of-horizon"),
    ("rules", "/project/security_groups/{group}/", "Ingress"),
    ("floating-ips", "/project/floating_ips/", "No items to display"),
    ("admin-overview", "/admin/", "Usage Summary"),
    ("hypervisors", "/admin/hypervisors/", "compute1"),
    ("aggregates", "/admin/aggregates/", "of-horizon"),
    ("admin-instances", "/admin/instances/", SERVER),
    ("flavors", "/admin/flavors/", "tempest.nano"),
    ("admin-images", "/admin/images", "tempest-1"),
    ("admin-networks", "/admin/networks/", NETWORK),
    ("admin-routers", "/admin/routers/", "No items to display"),
    ("defaults", "/admin/defaults/", "Injected Files"),
    ("services", "/admin/info/", "compute"),
    ("compute-services", "/admin/info/?tab=system_info__nova_services", "nova-conductor"),
    ("network-agents", "/admin/info/?tab=system_info__network_agents", "compute1"),
    ("projects", "/identity/", "admin"),
)
# Texts, also those of drawings.
SHOWN = "(document.body.innerText + Array.from(document.querySelectorAll('svg text')).map(each => each.textContent).join(' '))"
TOLD = "Array.from(document.querySelectorAll('.alert-danger, .alert-error, .exception')).map(each => each.innerText).join(' ')"
# Horizon's own failure, where Glance has no definitions of metadata.
OWN = "/api/glance/metadefs/namespaces/"
POST = """fetch(%s, {method: "POST", credentials: "same-origin", body: JSON.stringify(%s), headers: {
    "Content-Type": "application/json", "X-Requested-With": "XMLHttpRequest",
    "X-CSRFToken": document.cookie.match(/csrftoken=([^;]+)/)[1],
}}).then(async answer => answer.status + " " + await answer.text())"""


class Horizon(PrivateServer):
    name = "horizon"
    ports_needed = 1

    def __init__(self, python: Path, keystone: str) -> None:
        super().__init__()
        self._python, self._keystone = python, keystone

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    def prepare(self) -> None:
        (package,) = self._python.parent.parent.glob("lib/python3*/site-packages/openstack_dashboard")
        shutil.copyfile(SETTINGS, package / "local" / SETTINGS.name)

    def command(self) -> list[str]:
        return [str(self._python), "-m", "django", "runserver", "--noreload", f"127.0.0.1:{self.ports[0]}"]

    def environment(self) -> dict[str, str]:
        return without_tests_variables(super().environment()) | {
            "DJANGO_SETTINGS_MODULE": "openstack_dashboard.settings",
            "HORIZON_KEYSTONE": self._keystone,
            "HORIZON_FOLDER": str(self.directory),
            "PYTHONWARNINGS": "ignore",
        }

    def answers(self) -> bool:
        try:
            return urllib3.request("GET", f"{self.url}/auth/login/", retries=False, timeout=60).status == 200
        except urllib3.exceptions.HTTPError:
            return False


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.horizon", description=__doc__)
    parser.add_argument("--screenshots", type=Path, default=Path("build/horizon"), metavar="FOLDER")
    pictures = parser.parse_args(arguments).screenshots
    pictures.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.CRITICAL)
    python = installed("horizon") / "python"
    with (
        cloud() as new_cloud,
        Horizon(python, new_cloud.keystone) as horizon,
        tempfile.TemporaryDirectory(prefix="chromium") as profile,
    ):
        with browser(Path(profile)) as page:
            log_in(page, horizon.url)
            failed = [*launch(page, horizon.url, new_cloud, pictures)]
            failed += look(page, horizon.url, fill(new_cloud), pictures)
        failed += [line for line in horizon.log.splitlines() if re.search(r'" 5\d\d ', line) and OWN not in line]
    print(*failed, sep="\n")
    print(f"{len(PAGES) + 2} pages, {len(failed)} failures. Screenshots: {pictures}")
    return 1 if failed else 0


def log_in(page: Browser, url: str) -> None:
    page.open(f"{url}/auth/login/")
    page.wait_for("document.querySelector('#loginBtn') !== null")
    page.run(
        "document.querySelector('#id_username').value = 'admin';"
        f"document.querySelector('#id_password').value = {json.dumps(PASSWORD)};"
        "document.querySelector('#loginBtn').click()"
    )
    page.wait_for("location.pathname.startsWith('/project') || location.pathname.startsWith('/identity')")
    page.wait_for("document.readyState == 'complete'")


def launch(page: Browser, url: str, made: Cloud, pictures: Path) -> list[str]:
    """Opens the form, and sends what it sends: with a password, and default values of everything."""
    page.open(f"{url}/project/instances/")
    page.wait_for("document.querySelector('#instances__action_launch-ng') !== null")
    page.bad.clear()
    page.run("document.querySelector('#instances__action_launch-ng').click()")
    page.wait_for("document.body.innerText.includes('Instance Name')")
    page.wait_for("!document.body.innerText.includes('Loading')")
    page.picture(pictures / "launch.png")
    failed = [f"launch: {each}" for each in page.bad if OWN not in each]
    body = {
        "availability_zone": "",
        "admin_pass": "s3cret",
        "config_drive": False,
        "user_data": "",
        "disk_config": "AUTO",
        "instance_count": 1,
        "name": SERVER,
        "scheduler_hints": {},
        "security_groups": ["default"],
        "create_volume_default": False,
        "hide_create_volume": False,
        "source_id": made.images[0],
        "flavor_id": made.flavors[0],
        "nics": [{"net-id": network(made), "v4-fixed-ip": ""}],
        "meta": {},
        "key_name": None,
        "description": None,
        "block_device_mapping_v2": None,
    }
    answer = page.run(POST % (json.dumps("/api/nova/servers/"), json.dumps(body)))
    print(f"{'ok' if not failed else 'FAIL'} launch: {answer[:40]}", flush=True)
    return failed if answer.startswith("201") else [*failed, f"launch: {answer}"]


def look(page: Browser, url: str, given: Mapping[str, str], pictures: Path) -> list[str]:
    failed = []
    for name, path, text in PAGES:
        page.bad.clear()
        errors = []
        try:
            page.open(url + path.format_map(given))
            page.wait_for(f"{SHOWN}.includes({json.dumps(text)}) && !{SHOWN}.includes('Loading')")
        except AssertionError as error:
            errors.append(str(error))
        page.picture(pictures / f"{name}.png")
        errors += [told] if (told := page.run(TOLD)) else []
        errors += [each for each in page.bad if OWN not in each]
        print(f"FAIL {name}: {errors}" if errors else f"ok {name}", flush=True)
        failed += [f"{name}: {each}" for each in errors]
    return failed


def network(made: Cloud) -> str:
    return str(connect(made.keystone).network.find_network(NETWORK).id)


def fill(made: Cloud) -> dict[str, str]:
    """Something on each page. Returns the ids in the paths of PAGES."""
    cloud = connect(made.keystone)
    server = cloud.compute.find_server(SERVER)
    cloud.compute.wait_for_server(server, wait=300)
    cloud.compute.create_keypair(name=SERVER)
    cloud.compute.create_server_group(name=SERVER, policy="anti-affinity")
    aggregate = cloud.compute.create_aggregate(name=SERVER, availability_zone="horizon")
    cloud.compute.add_host_to_aggregate(aggregate, "compute2")
    group = cloud.network.create_security_group(name=SERVER)
    cloud.network.create_security_group_rule(
        security_group_id=group.id, direction="ingress", protocol="tcp", port_range_min=22, port_range_max=22
    )
    return {"server": server.id, "network": network(made), "group": group.id}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
