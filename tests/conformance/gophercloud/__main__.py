"""gophercloud's acceptance tests of Compute, Image, Placement and Networking over HTTP, unchanged: against a minova of its own with Keystone and Glance.

    python -m tests.conformance.gophercloud [PACKAGE ...]

An extra: it needs Go and gophercloud's source, which `tools/setup gophercloud` installs from Debian. `tox -e gophercloud` runs it. PACKAGE: below gophercloud's acceptance/openstack, by default PACKAGES. Prints a table: tests that passed, that gophercloud
itself skips, and that failed, each with the reason. Exit code 0: each failure has a reason.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from minova.virt.fake import FakeDriver
from tests.conformance.clients import connect
from tests.conformance.tempest.cloud import Cloud, cloud
from tests.servers.keystone import PASSWORD, REGION

SOURCE = "/usr/share/gocode"
ROOT = "github.com/gophercloud/gophercloud/acceptance/openstack/"
_EXTENSIONS = "networking/v2/extensions"
PACKAGES = (
    "compute/v2",
    "imageservice/v2",
    "placement/v1",
    "networking/v2",
    _EXTENSIONS,
    *(
        f"{_EXTENSIONS}/{name}"
        for name in (
            *("agents", "dns", "layer3", "mtu", "networkipavailabilities", "portsbinding", "qos/policies", "quotas"),
            *("rbacpolicies", "subnetpools", "trunks", "vlantransparent"),
        )
    ),
)
# {the beginning of "package.test": why it fails}
REASONS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("compute/v2.TestBootFromNewVolume", "compute/v2.TestBootFromExistingVolume"),
            *("compute/v2.TestBootFromNewCustomizedVolume", "compute/v2.TestAttachNewVolume"),
            *("compute/v2.TestAttachExistingVolume", "compute/v2.TestVolumeAttachAttachment"),
        ),
        "there is no volume service",
    ),
    **dict.fromkeys(
        ("compute/v2.TestQuotasetGet", "compute/v2.TestQuotasetUpdateDelete"),
        "gophercloud asks for projects of Identity v2, which Keystone has removed",
    ),
    **dict.fromkeys(
        ("imageservice/v2.TestImageStage", "imageservice/v2.TestCreateImport", "imageservice/v2.TestTaskCreate"),
        "it downloads an image from the Internet",
    ),
    "compute/v2.TestFloatingIPs": "there are no routers and no floating addresses",
    "networking/v2.TestExtensionGet": "it reads the extension router, which is not served",
    "networking/v2.TestNetworksExternalList": "no network is external: routers and floating addresses are not served",
    "networking/v2.TestPortsWithExtraDHCPOptsCRUD": "its options are none of DHCP, and no host could serve them",
    "agents.": "agents are computes: there is no DHCP agent to choose",
    "portsbinding.": "it asks for an interface of bare metal",
    "layer3.": "routers, floating addresses and address scopes are not served",
    "rbacpolicies.": "RBAC policies are not served",
    "trunks.": "trunks are not served",
    "qos/policies.": "QoS policies are not served",
    "dns.": "no DNS service outside knows guests",
    "vlantransparent.": "guests have no VLANs of their own",
}


# Seconds that a guest needs to shut down, or to get another disk, as a real one: gophercloud waits to see that it does so.
PAUSE = 4.0


class Result(NamedTuple):
    """`name`: package.test. `action`: of `go test`: pass, skip or fail."""

    name: str
    action: str
    output: str

    @property
    def reason(self) -> str | None:
        return next((why for start, why in REASONS.items() if self.name.startswith(start)), None)


def main(packages: Sequence[str]) -> int:
    for name in ("shut_down", "rebuild"):
        setattr(FakeDriver, name, _slowly(getattr(FakeDriver, name)))
    with cloud() as given, tempfile.TemporaryDirectory(prefix="gophercloud") as cache:
        with_flavors = given._replace(flavors=_flavors(given.keystone))
        environment = {**os.environ, "GO111MODULE": "off", "GOPATH": SOURCE, "GOCACHE": cache, **_login(with_flavors)}
        results = [each for package in packages or PACKAGES for each in _run(package, environment)]
    unexplained = [each for each in results if each.action == "fail" and each.reason is None]
    for each in unexplained:
        print(f"--- {each.name}\n{each.output}")
    print(table(results))
    return 1 if unexplained or not results else 0


def _slowly(act: Callable[..., Any]) -> Callable[..., Any]:
    def slow(*arguments: Any) -> Any:
        time.sleep(PAUSE)
        return act(*arguments)

    return slow


def _flavors(keystone: str) -> tuple[str, ...]:
    """Makes two flavors with an ephemeral disk that a server may divide; the second one is larger."""
    sdk = connect(keystone)
    sizes = (64, 128)
    return tuple(sdk.create_flavor(f"gophercloud-{ram}", ram=ram, vcpus=1, disk=1, ephemeral=2).id for ram in sizes)


def _login(made: Cloud) -> dict[str, str]:
    return {
        "OS_AUTH_URL": made.keystone,
        "OS_USERNAME": "admin",
        "OS_PASSWORD": PASSWORD,
        "OS_PROJECT_NAME": "admin",
        "OS_DOMAIN_NAME": "Default",
        "OS_REGION_NAME": REGION,
        "OS_IMAGE_ID": made.images[0],
        "OS_FLAVOR_ID": made.flavors[0],
        "OS_FLAVOR_ID_RESIZE": made.flavors[1],
        "OS_NETWORK_ID": "none",
        "OS_NETWORK_NAME": "tempest-shared",
        "OS_EXTGW_ID": "none",
        "OS_POOL_NAME": "none",
        "OS_LIVE_MIGRATE": "true",
    }


def _run(package: str, environment: Mapping[str, str]) -> Iterable[Result]:
    command = ["go", "test", "-json", "-count=1", "-timeout", "30m", "-p", "1", "-tags", "acceptance", ROOT + package]
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, timeout=2000, check=False)
    outputs: dict[str, str] = {}
    ended: dict[str, str] = {}
    for line in done.stdout.splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        test = event.get("Test")
        if test is None:
            continue
        outputs[test] = outputs.get(test, "") + event.get("Output", "")
        if event["Action"] in ("pass", "skip", "fail"):
            ended[test] = event["Action"]
    if not ended:
        raise SystemExit(f"{package} did not run:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    name = package.removeprefix(f"{_EXTENSIONS}/")
    return [Result(f"{name}.{test}", action, outputs[test]) for test, action in ended.items()]


def table(results: Iterable[Result]) -> str:
    """Returns the table of docs/reference/compatibility.md."""
    by_package: dict[str, list[Result]] = {}
    for each in results:
        by_package.setdefault(each.name.partition(".")[0], []).append(each)
    lines = ["| package | passed | skipped | failed | why |", "| --- | --- | --- | --- | --- |"]
    for package, test_results in by_package.items():
        counts = [sum(each.action == action for each in test_results) for action in ("pass", "skip", "fail")]
        reasons = Counter(each.reason or "unexplained" for each in test_results if each.action == "fail")
        why = "; ".join(f"{number}: {reason}" for reason, number in reasons.most_common())
        lines.append(f"| {package} | {counts[0]} | {counts[1]} | {counts[2]} | {why} |")
    return "\n".join(lines)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
