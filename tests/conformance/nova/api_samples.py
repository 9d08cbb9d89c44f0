"""Runs in Nova's environment: Nova's own functional sample tests, whose requests go to minova instead of a Nova of theirs.

    python api_samples.py --leave-out FOLDER,... --part NUMBER/PARTS [WORD...]

for tests.conformance.api_samples, which answers on its standard input.

One JSON object a line on standard output: {"cloud": ...} asks for a new minova, {"test": ...} says how a test ended and what
became of the templates that it used.
"""

import importlib
import json
import os
import re
import sys
import time
import traceback
import types
import typing
import unittest
from pathlib import Path
from unittest import mock

# Answers are lines on the real standard output; what Nova prints goes to the standard error.
ANSWERS = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

import requests  # noqa: E402
from nova import objects  # noqa: E402
from nova.tests import fixtures as nova_fixtures  # noqa: E402
from nova.tests.functional import api_sample_tests, api_samples_test_base, integrated_helpers  # noqa: E402
from nova.tests.functional.api import client  # noqa: E402
from nova.tests.functional.api_sample_tests import api_sample_base  # noqa: E402
from nova.tests.unit.api.openstack import fakes  # noqa: E402
from nova.tests.unit.api.openstack.compute import test_services  # noqa: E402
from testscenarios import generate_scenarios  # noqa: E402

SAMPLES = Path(api_sample_tests.__file__).parent / "api_samples"
PASSWORD = "secret"
ADMIN = ("admin", PASSWORD)
# One way to call is enough to compare answers: /v2.1 with the project's id, or the class's only scenario.
SCENARIO = "v2_1"
# Some templates name Nova's host instead of a variable.
HOST = "http://openstack.example.com"
# Names of hosts, ours and those of Nova's tests.
HOSTS = (("controller", "conductor"), ("scheduler0", "scheduler"))
RESERVATION = re.compile(r"r-[0-9a-f]{16}$")
# Of Nova's fake hypervisor; the sizes of ours are set to the same.
HARDWARE = frozenset({"cpu_info", "hypervisor_version", "disk_available_least"})
MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}$")
Base = api_samples_test_base.ApiSampleTestBase
UUID_OF_HOST = test_services.FAKE_UUID_COMPUTE_HOST1
# {folder: hosts that its tests pretend}.
PRETENDED_HOSTS = {
    "os-evacuate": ("testHost",),
    "os-migrate-server": ("target-host",),
    "os-services": ("host1",),
    "os-shelve": ("host01",),
    "server-migrations": ("host1",),
}
STUB_OUT = integrated_helpers.test.TestCase.stub_out
STANDARD_COMPUTE = integrated_helpers._IntegratedTestBase._setup_compute_service


class Cloud:
    """The minova of the test that runs."""

    url = ""
    # {its own: the one that templates name}
    uuids: typing.ClassVar = {}


class Recorder:
    """What became of each template that the test has used: "" if all is well."""

    def __init__(self):
        self.outcomes = {}
        self.refused = {}
        self.last = None

    def begin(self, template):
        self.last = template
        self.outcomes.setdefault(template, "")

    def failed(self, reason):
        if self.last is not None and not self.outcomes[self.last]:
            self.outcomes[self.last] = reason

    def ended(self, folder, reason):
        """The test has failed. What it used last is to blame only if no template is yet, and it is one of its own."""
        for template, refusal in self.refused.items():
            self.outcomes[template] = self.outcomes[template] or refusal
        own = self.last is not None and self.last.partition("/")[0] == folder
        if own and not any(self.outcomes.values()):
            self.failed(reason)


recorder = Recorder()


def say(**answer):
    print(json.dumps(answer), file=ANSWERS, flush=True)


def ask(**question):
    say(**question)
    return json.loads(sys.stdin.readline())


def set_up(test):
    """In place of the services: clients of a new minova. Nova's fixtures stay for the ids that they name."""
    test.flags(glance_link_prefix="http://unused", compute_link_prefix="http://unused", group="api")
    test.USES_DB = False
    test.USES_DB_SELF = True
    integrated_helpers.test.TestCase.setUp(test)
    test.neutron = test.useFixture(nova_fixtures.NeutronFixture(test))
    test.cinder = test.useFixture(nova_fixtures.CinderFixture(test))
    test.glance = test.useFixture(nova_fixtures.GlanceFixture(test))
    test.policy = test.useFixture(nova_fixtures.RealPolicyFixture())
    test.generate_samples = False
    zones = getattr(test, "availability_zones", None)
    cloud = ask(
        cloud=test.id(),
        # Else a server is gone at once, and nothing can restore it.
        reclaim=test.sample_dir == "os-deferred-delete",
        # Its tests ask for what else happens at once.
        keeps_shelved=test.sample_dir == "os-shelve" and not test.microversion,
        images=[
            {"id": image["id"], "name": image["name"], "properties": image["properties"]}
            for image in (test.glance.auto_disk_config_enabled_image,)
        ],
        network=test.neutron.network_1["id"],
        zone=zones[0] if zones else None,
        hosts=() if "non_valid" in test.id() else PRETENDED_HOSTS.get(test.sample_dir, ()),
    )
    Cloud.url = cloud["url"]
    test.compute = compute_service("compute")
    Cloud.uuids = {}
    if test.sample_dir == "os-services":
        test_services.FAKE_UUID_COMPUTE_HOST1 = compute_service("host1").service_ref.uuid
        Cloud.uuids = {test_services.FAKE_UUID_COMPUTE_HOST1: UUID_OF_HOST}
    if type(test)._setup_compute_service is not STANDARD_COMPUTE:
        test.compute = test._setup_compute_service()
    test.api_fixture = clients(test)
    test.admin_api = test.api_fixture.admin_api
    test.api = test.admin_api if test.ADMIN_API else test.api_fixture.api
    for each in {test.api, test.admin_api}:
        each.microversion = test.microversion


def compute_service(host):
    """What Nova's tests read of a compute service of theirs."""
    headers = {"OpenStack-API-Version": "compute 2.53"}

    def found(path, key):
        return requests.get(f"{Cloud.url}/v2.1/{path}", auth=ADMIN, headers=headers, timeout=60).json()[key]

    service = next(each for each in found("os-services", "services") if each["host"] == host)
    node = next(each for each in found("os-hypervisors/detail", "hypervisors") if each["service"]["host"] == host)
    row = types.SimpleNamespace(
        uuid=service["id"], host=host, compute_node=types.SimpleNamespace(uuid=node["id"], host=host)
    )
    return types.SimpleNamespace(host=host, service_ref=row)


def start_service(test, name, host=None, **more):
    """In place of one in Nova's process."""
    assert name == "compute", name
    ask(compute=host)
    return compute_service(host)


def make_flavor(flavor):
    """In place of a row in Nova's table."""
    body = {"id": str(flavor.flavorid), "name": flavor.name, "ram": flavor.memory_mb, "vcpus": flavor.vcpus}
    body |= {"disk": flavor.root_gb, "description": flavor.description}
    headers = {"OpenStack-API-Version": "compute 2.55"}
    path = f"{Cloud.url}/v2.1/flavors"
    requests.post(path, json={"flavor": body}, auth=ADMIN, headers=headers, timeout=60).raise_for_status()
    specs = {"extra_specs": flavor.extra_specs if flavor.obj_attr_is_set("extra_specs") else {}}
    if specs["extra_specs"]:
        more = f"{path}/{flavor.flavorid}/os-extra_specs"
        requests.post(more, json=specs, auth=ADMIN, timeout=60).raise_for_status()


def flavors_of_cloud(context, **filters):
    flavors = requests.get(f"{Cloud.url}/v2.1/flavors", auth=ADMIN, timeout=60).json()["flavors"]
    return [types.SimpleNamespace(flavorid=flavor["id"]) for flavor in flavors]


def make_key_pair(test, **names):
    """In place of a key pair that Nova's test pretends."""
    for user in ("fake", "admin"):
        body = {"keypair": {"name": "new-key"}}
        requests.post(f"{Cloud.url}/v2.1/os-keypairs", json=body, auth=(user, PASSWORD), timeout=60).raise_for_status()


def clients(test):
    project = api_samples_test_base.PROJECT_ID
    base = f"{Cloud.url}/{test.api_major_version}"
    if test.USE_PROJECT_ID:
        base += f"/{project}"

    def of(user):
        return client.TestOpenStackClient(user, base, project_id=project)

    return types.SimpleNamespace(
        api=of("fake"),
        alternative_api=of("fake"),
        admin_api=of("admin"),
        alternative_admin_api=of("admin"),
        reader_api=of("reader"),
        other_api=of("other"),
        base_url=base,
        project_id=project,
    )


def send(self, url, method="GET", body=None, headers=None):
    """With a user's password in place of the headers in which Nova's test names user and project."""
    sent = {"Content-Type": "application/json", **(headers or {})}
    # Some tests have one slash too many, of which Nova makes nothing.
    url = re.sub(r"(?<!:)//+", "/", url)
    user, project = sent.pop("X-Auth-User"), sent.pop("X-Auth-Project-Id")
    if project != api_samples_test_base.PROJECT_ID:
        user = f"{user}-{project}"
    for name in ("X-User-Id", "X-Roles"):
        sent.pop(name, None)
    response = requests.request(method, url, data=body, headers=sent, auth=(user, PASSWORD), timeout=120)
    if method != "GET" and response.ok and "/servers" in url:
        wait_for_servers()
    return response


def wait_for_servers():
    """Nova's tests wait for nothing: there an action has ended when its request is answered."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        listed = requests.get(f"{Cloud.url}/v2.1/servers/detail?all_tenants=1", auth=("admin", PASSWORD), timeout=60)
        servers = listed.json()["servers"]
        if all(server["OS-EXT-STS:task_state"] is None and server["status"] != "BUILD" for server in servers):
            return
        time.sleep(0.05)


def compare(self, name, subs, response, exp_code, update_links=True):
    """Only with the template; the sample of the documentation is not in the package."""
    recorder.begin(template_of(self, name))
    try:
        self.subs = {**self._get_regexes(), **subs}
        if response.status_code != exp_code:
            raise AssertionError(f"{response.status_code} instead of {exp_code}: {response.text[:300]}")
        expected = api_samples_test_base.objectify(self._read_template(name).replace(HOST, Cloud.url))
        content = response.text
        for ours, theirs in HOSTS:
            content = content.replace(f'"{ours}"', f'"{theirs}"')
        for own, theirs in Cloud.uuids.items():
            content = content.replace(own, theirs)
        actual = api_samples_test_base.objectify(api_samples_test_base.pretty_data(content))
        return self._compare_result(without_stand_ins(expected, actual), actual, "Response")
    except Exception as error:
        recorder.failed(str(error) or type(error).__name__)
        raise


def without_stand_ins(expected, actual):
    """The template without what only Nova's stand-ins for other services say: see README.md."""
    if isinstance(expected, list):
        if isinstance(actual, list) and len(expected) == len(actual):
            return [without_stand_ins(*pair) for pair in zip(expected, actual, strict=True)]
        return expected
    if not isinstance(expected, dict) or not isinstance(actual, dict):
        return expected
    return {key: stand_in(key, value, actual.get(key)) for key, value in expected.items()}


def stand_in(key, expected, actual):
    if key in ("OS-EXT-IPS-MAC:mac_addr", "mac_addr") and MAC.match(str(actual)):
        return actual
    # Nova's tests let the database say that there are two volumes, of which no request speaks.
    if key == "os-extended-volumes:volumes_attached" and actual == []:
        return actual
    if key in HARDWARE and actual is not None:
        return actual
    # All servers have one here, because the tests send files for guests.
    if key == "config_drive" and actual == "True":
        return actual
    # Nova's tests wait for the end of an action before its answer is made.
    if (key == "OS-EXT-STS:task_state" and actual is not None and expected is None) or (
        (key, expected, actual) == ("status", "ACTIVE", "REBUILD")
    ):
        return actual
    # Ours are longer, so that none comes twice.
    if key in ("OS-EXT-SRV-ATTR:reservation_id", "reservation_id") and RESERVATION.match(str(actual)):
        return actual
    if key == "OS-EXT-SRV-ATTR:root_device_name" and str(actual).startswith("/dev/"):
        return actual
    # The zone of hosts that are in none has the name here that Nova's tests ask for.
    if key == "OS-EXT-AZ:availability_zone" and (expected, actual) == ("nova", "us-west"):
        return actual
    if key == "OS-EXT-SRV-ATTR:instance_name" and str(actual).startswith("instance-"):
        return actual
    return without_stand_ins(expected, actual)


def stub_out(self, name, replacement):
    """Nova's test of evacuations pretends in its own process that the host is down."""
    if name == "nova.servicegroup.api.API.service_is_up":
        service = f"{Cloud.url}/v2.1/os-services/{self.compute.service_ref.uuid}"
        headers = {"OpenStack-API-Version": "compute 2.53"}
        requests.put(service, json={"forced_down": True}, auth=ADMIN, headers=headers, timeout=60).raise_for_status()
    else:
        STUB_OUT(self, name, replacement)


def post(self, url, name=None, subs=None, method="POST", headers=None):
    self.subs = {} if subs is None else dict(subs)
    if name == "live-migrate-server" and self.subs["hostname"] == self.compute.host:
        # Nova's tests stop the migration in their own process, before it compares the hosts.
        self.subs["hostname"] = PRETENDED_HOSTS[self.sample_dir][0]
    body = None
    if name:
        recorder.begin(template_of(self, name))
        body = self._read_template(name) % self.subs
    response = self._get_response(url, method, body, headers=headers)
    if name and response.status_code >= 400:
        # Which the test may expect.
        recorder.refused[recorder.last] = (
            f"{method} {url.partition('?')[0]}: {response.status_code} {response.text[:300]}"
        )
    return response


def template_of(self, name):
    return str(Path(self._get_template(name, self.microversion)).resolve().relative_to(SAMPLES))


def setup_of_class(self):
    set_up(self)


def replace_what_nova_has():
    api_sample_base.ApiSampleTestBaseV21.setUp = setup_of_class
    integrated_helpers._IntegratedTestBase.setUp = setup_of_class
    Base._verify_response = compare
    Base._do_post = post
    Base._get_host = lambda self: Cloud.url
    Base._get_glance_host = lambda self: Cloud.url
    client.TestOpenStackClient.request = send
    integrated_helpers.test.TestCase.stub_out = stub_out
    # What the request has led to is in another process.
    mock.NonCallableMock.assert_called_once_with = lambda self, *args, **kwargs: None
    integrated_helpers.test.TestCase.start_service = start_service
    objects.Flavor.create = make_flavor
    objects.FlavorList.get_all = flavors_of_cloud
    fakes.stub_out_key_pair_funcs = make_key_pair


class Result(unittest.TestResult):
    def startTest(self, test):  # noqa: N802  - unittest\'s
        recorder.outcomes, recorder.refused, recorder.last = {}, {}, None
        super().startTest(test)
        self.ending = ("passed", "")
        self.folder = test.sample_dir

    def addError(self, test, err, details=None):  # noqa: N802  - unittest\'s
        self.end("failed", err, details)

    def addFailure(self, test, err, details=None):  # noqa: N802  - unittest\'s
        self.end("failed", err, details)

    def addSkip(self, test, reason=None, details=None):  # noqa: N802  - unittest\'s
        self.ending = ("skipped", str(reason or (details and details.get("reason") and details["reason"].as_text())))

    def end(self, kind, err, details):
        if err is not None:
            whole = "".join(traceback.format_exception(*err))
        else:
            whole = details["traceback"].as_text() if details and "traceback" in details else str(details)
        said = whole.strip().splitlines()[-1]
        if self.ending[0] == "passed":
            self.ending = (kind, said[-2000:])
            self.whole = whole[-6000:]
            recorder.ended(self.folder, said[-1500:])

    def stopTest(self, test):  # noqa: N802  - unittest\'s
        super().stopTest(test)
        kind, said = self.ending
        more = {"traceback": self.whole} if kind == "failed" else {}
        say(test=test.id(), ended=kind, reason=said, templates=recorder.outcomes, **more)


def wanted(test, words, left_out):
    if getattr(test, "sample_dir", None) in left_out:
        return False
    scenario = re.search(r"\((\w+)\)$", test.id())
    if scenario and scenario.group(1) in ("v2", "v2_1_noproject_id"):
        return False
    return not words or any(word in test.id() for word in words)


def tests_of(suite):
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from tests_of(each)
        else:
            yield each


def main(left_out, part, words):
    """`part`: (1, 3) is every third test from the first on."""
    replace_what_nova_has()
    folder = Path(api_sample_tests.__file__).parent
    say(templates=sorted(str(path.relative_to(SAMPLES)) for path in SAMPLES.rglob("*.tpl")))
    loader = unittest.TestLoader()
    chosen = 0
    for path in sorted(folder.glob("test_*.py")):
        if path.stem == "test_compare_result":
            continue
        module = importlib.import_module(f"{api_sample_tests.__name__}.{path.stem}")
        suite = generate_scenarios(loader.loadTestsFromModule(module))
        for test in tests_of(unittest.TestSuite(suite)):
            if not wanted(test, words, left_out):
                continue
            chosen += 1
            if chosen % part[1] == part[0] % part[1]:
                test.run(Result())
    say(end=True)


if __name__ == "__main__":
    # --leave-out FOLDER,... --part NUMBER/PARTS [WORD...]
    main(frozenset(sys.argv[2].split(",")), tuple(map(int, sys.argv[4].split("/"))), sys.argv[5:])
