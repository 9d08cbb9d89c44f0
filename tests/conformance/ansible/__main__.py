"""Ansible's collection openstack.cloud over HTTP, unchanged, against the cloud of the Tempest run.

    python -m tests.conformance.ansible

An extra: the first run installs Ansible in an environment of its own. `tox -e ansible` runs it. create.yml and delete.yml run twice:
the second time nothing may change. Exit code 0: each task does what it should, or does not for its reason in REASONS.
"""

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.conformance.clients import PUBLIC_KEY, installed
from tests.conformance.tempest.cloud import cloud
from tests.servers.keystone import PASSWORD, REGION
from tests.servers.openstack_server import without_tests_variables

FOLDER = Path(__file__).parent
# (playbook, whether it has run before)
RUNS = (("create", False), ("create", True), ("use", False), ("delete", False), ("delete", True))
# {(playbook, task): why it fails, or changes something the second time}
REASONS: Mapping[tuple[str, str], str] = {
    (
        "create",
        "openstack.cloud.port",
    ): "beside Neutron, too: the module compares `fixed_ips` with the answer, which has subnets and IPv6 addresses, too",
    (
        "create",
        "server by the defaults",
    ): "beside any cloud without an external network: the module asks for a floating address again",
    ("use", "floating_ip"): "there are no floating addresses",
    ("use", "router"): "there are no routers",
}


class Result(NamedTuple):
    playbook: str
    again: bool
    task: str
    error: str | None

    @property
    def reason(self) -> str | None:
        return REASONS.get((self.playbook, self.task))


def main() -> int:
    logging.disable(logging.CRITICAL)
    ansible = installed("ansible")
    with cloud() as new_cloud, tempfile.TemporaryDirectory(prefix="ansible") as folder:
        return tell(results(ansible, new_cloud.keystone, Path(folder)))


def results(ansible: Path, keystone: str, folder: Path) -> list[Result]:
    image = folder / "image"
    image.write_bytes(bytes(65536))
    environment = without_tests_variables(os.environ)
    environment |= {
        "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_PYTHON_INTERPRETER": str(ansible / "python"),
        "ANSIBLE_HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "OS_AUTH_URL": keystone,
        "OS_USERNAME": "admin",
        "OS_PASSWORD": PASSWORD,
        "OS_PROJECT_NAME": "admin",
        "OS_USER_DOMAIN_NAME": "Default",
        "OS_PROJECT_DOMAIN_NAME": "Default",
        "OS_REGION_NAME": REGION,
    }
    task_results: list[Result] = []
    for playbook, again in RUNS:
        given = {"image": str(image), "public_key": PUBLIC_KEY, "first_run": not again}
        command = [str(ansible / "ansible-playbook"), "-i", "localhost,", "-c", "local", "-e", json.dumps(given)]
        done = subprocess.run(
            [*command, str(FOLDER / f"{playbook}.yml")], env=environment, capture_output=True, text=True, timeout=1800
        )
        start = done.stdout.find("{\n")
        if start < 0:
            raise SystemExit(f"{playbook}.yml did not run:\n{done.stdout}{done.stderr}")
        task_results += _results(playbook, again, json.loads(done.stdout[start:]))
    return task_results


def _results(playbook: str, again: bool, report: Any) -> Iterator[Result]:
    for task in (task for play in report["plays"] for task in play["tasks"]):
        answer = task["hosts"].get("localhost", {})
        if answer.get("skipped"):
            continue
        error = None
        if answer.get("failed"):
            error = str(answer.get("msg"))
        elif again and answer.get("changed"):
            error = f"changed again: {json.dumps(answer)[:1500]}"
        yield Result(playbook, again, task["task"]["name"], error)


def tell(found: list[Result]) -> int:
    """Prints each failure, and the table of docs/reference/compatibility.md."""
    failed = [each for each in found if each.error]
    for each in failed:
        print(f"{each.reason or 'FAIL'}: {each.playbook}{' again' * each.again}: {each.task}: {each.error}\n")
    print("| playbook | tasks | passed | failed | why |\n| --- | ---: | ---: | ---: | --- |")
    for playbook, again in RUNS:
        own = [each for each in found if (each.playbook, each.again) == (playbook, again)]
        bad = [each for each in own if each.error]
        why = "; ".join(sorted({f"`{each.task}`: {each.reason or 'unexplained'}" for each in bad}))
        name = f"`{playbook}.yml`, second run" if again else f"`{playbook}.yml`"
        print(f"| {name} | {len(own)} | {len(own) - len(bad)} | {len(bad)} | {why} |")
    return 1 if not found or any(each.reason is None for each in failed) else 0


if __name__ == "__main__":
    sys.exit(main())
