"""`minova-manage doctor` says nothing about a healthy cloud, and finds each of these faults.

Each fault takes half a second: the first of each area is tried here, and all of them with MINOVA_DOCTOR=all (tools/check nightly).
"""

import fcntl
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import urllib3
from sqlalchemy import delete, insert, select, text, update
from sqlalchemy.orm import Session

from minova import certificates
from minova.cmd.commands import doctor
from minova.cmd.manage import run
from minova.cmd.startup.usual_flavors import MADE
from minova.db import models
from minova.db.engine import Database
from minova.db.models.clock import Clock, EpochNow
from minova.health import storages
from minova.health.doctor.broker import judge
from minova.messaging.queue_depths import Depth
from minova.objects.hosts.node_audit import NodeAudit
from minova.objects.hosts.service import STOPPED
from minova.objects.unexpected.guest_record import GuestMark
from tests.cluster import Cluster
from tests.servers.authority import Authority
from tests.waiting import wait_for

BOTH = ("hv1", "hv2")
LONG_AGO = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=1)
PASSWORDS = "[DEFAULT]\n# a comment\n[neutron]\npassword = secret\n"


class Cloud:
    """The rows and files of a cloud with one server, whose services have just stopped."""

    def __init__(self, folder: Path, server: str, image: str) -> None:
        self.folder = folder
        self.server = server
        self.image = image
        self.url = f"sqlite:///{folder}/minova.sqlite"
        self.store = folder / "images"
        self.options = ""
        self.home: Path | None = None

    def run(self, work: Callable[[Session], Any]) -> None:
        db = Database(self.url)
        try:
            db.run(work)
        finally:
            db.close()

    def execute(self, statement: Any) -> None:
        self.run(lambda session: session.execute(statement))

    def let_services_report(self, *, but: str = "") -> None:
        """All services except `but` have been heard just now, and a conductor has advanced the clock."""
        now = Clock.value

        def beat(session: Session) -> None:
            session.execute(update(Clock).values(wall=EpochNow()))
            value = session.scalar(Clock.__table__.select().with_only_columns(now))
            silent = (
                models.Service.__table__.select()
                .with_only_columns(models.Service.id)
                .where(models.Service.binary == but)
            )
            session.execute(update(models.Service).values(down_reason=None))  # they have said that they stop
            session.execute(update(models.Heartbeat).values(last_seen=value))
            session.execute(
                update(models.Heartbeat).values(last_seen=0.0).where(models.Heartbeat.service_id.in_(silent))
            )
            session.execute(update(models.NodeAudit).values(audited_at=datetime.now(UTC).replace(tzinfo=None)))

        self.run(beat)

    @property
    def words(self) -> list[str]:
        """The file is named, unless services have files of their own."""
        file = (self.home or self.folder) / "minova.conf"
        if not file.exists():
            file.touch(0o640)
            self._write(file)
        return ["--config-file", str(file), "doctor"] if self.home is None else ["doctor"]

    def without_names(self, text: str) -> str:
        """Returns the findings, sorted, without what differs each time."""
        known = {
            str(self.folder): "FOLDER",
            str(certificates.PKI): "PKI",
            str(Path.home()): "HOME",
            self.server: "SERVER",
            self.image: "IMAGE",
        }
        for value, name in known.items():
            text = text.replace(value, name)
        text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", text)
        text = re.sub(r"\d{3,} s\b", "N s", text)
        found = re.split(r"\n(?=\w)", text.strip())
        return "\n".join(sorted(found))

    def write_own(self, name: str, text: str, mode: int = 0o640) -> None:
        """Write a file where services look for files first."""
        self.home = Path.home() / ".minova"
        file = self.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def _write(self, file: Path) -> None:
        lines = ["[DEFAULT]", f"state_path = {self.folder}", f"instances_path = {self.folder}", self.options]
        lines += ["[database]", f"connection = {self.url}", "[api]", f"images_path = {self.store}"]
        file.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Cloud:
    folder = tmp_path_factory.mktemp("healthy")
    with Cluster(folder, ["hv1", "hv2"]) as cluster:
        ask = _asker(cluster.url)
        body = {"name": "i", "disk_format": "raw", "container_format": "bare"}
        image = ask("POST", "/v2/images", json=body)["id"]
        binary = {"Content-Type": "application/octet-stream"}
        ask("PUT", f"/v2/images/{image}/file", body=b"\1" * 512, headers=binary)
        network = ask("POST", "/network/v2.0/networks", json={"network": {"name": "n"}})["network"]["id"]
        subnet = {"network_id": network, "cidr": "10.1.0.0/24", "ip_version": 4}
        ask("POST", "/network/v2.0/subnets", json={"subnet": subnet})
        flavor = {"name": "f", "id": "f", "vcpus": 1, "ram": 256, "disk": 1}
        ask("POST", "/v2.1/flavors", json={"flavor": flavor})
        server = {"name": "s", "flavorRef": "f", "imageRef": image, "networks": [{"uuid": network}]}
        server["availability_zone"] = "nova:hv1"
        server_id = ask("POST", "/v2.1/servers", json={"server": server})["server"]["id"]
        wait_for("ACTIVE", lambda: ask("GET", f"/v2.1/servers/{server_id}")["server"]["status"] == "ACTIVE")
        wait_for("audits", lambda: _audits(cluster.db) == 2)
        healthy = folder / "cloud"
        healthy.mkdir(mode=0o750)
        shutil.copytree(cluster.folder / "controller" / "images", healthy / "images")
    for file in (folder / "controller").glob("minova.sqlite*"):  # with its journal
        shutil.copy(file, healthy / file.name)
    (healthy / "images").chmod(0o750)
    return Cloud(healthy, server_id, image)


def _asker(url: str) -> Callable[..., Any]:
    http = urllib3.PoolManager()
    patience = urllib3.Retry(10, status_forcelist=[503], allowed_methods=None, raise_on_status=False)

    def ask(method: str, path: str, **what: Any) -> Any:
        answer = http.request(method, url + path, timeout=60, retries=patience, **what)
        assert answer.status < 300, (path, answer.status, answer.data)
        return answer.json() if answer.data else None

    return ask


def _audits(db: Database) -> int:
    with db.read() as session:
        return len(session.scalars(models.NodeAudit.__table__.select()).all())


@pytest.fixture
def cloud(healthy: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    monkeypatch.setattr(doctor, "BETWEEN", 0.0)
    shutil.copytree(healthy.folder, tmp_path / "cloud")
    copy = Cloud(tmp_path / "cloud", healthy.server, healthy.image)
    copy.folder.chmod(0o750)
    copy.let_services_report()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(certificates, "PKI", tmp_path / "pki")
    return copy


def test_of_a_healthy_cloud_it_says_nothing(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(cloud.words) == 0
    assert capsys.readouterr() == ("", "")
    assert run([*cloud.words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_bug_bytes_of_a_deleted_image_were_a_finding_until_their_removal(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    image_id = str(uuid.uuid4())
    cloud.execute(insert(models.DeletedImage).values(id=image_id))
    (cloud.store / image_id).write_bytes(b"x")
    assert (run(cloud.words), capsys.readouterr().out) == (0, "")


def test_bug_folders_and_keys_of_services_own_files_were_faults(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    """It looked for the images and the key of guests' secrets where minova.conf has them."""
    images, key = cloud.folder / "elsewhere", cloud.folder / "keys"
    cloud.store.rename(images)
    key.write_text(KEY)
    key.chmod(0o640)
    cloud.write_own("minova-api.conf", f"[api]\nimages_path = {images}\n")
    cloud.write_own("minova-conductor.conf", f"[guest_secrets]\nkey_file = {key}\n")
    offer_of_other_conductors(cloud)
    assert (run(cloud.words), capsys.readouterr().out) == (0, "")


def service(binary: str, *, hosts: tuple[str, ...] = ("hv1",), **values: Any) -> Callable[[Cloud], None]:
    concerned = models.Service.binary == binary, models.Service.host.in_(hosts)
    return lambda cloud: cloud.execute(update(models.Service).where(*concerned).values(**values))


def instance(**values: Any) -> Callable[[Cloud], None]:
    return lambda cloud: cloud.execute(update(models.Instance).values(**values))


def port(**values: Any) -> Callable[[Cloud], None]:
    return lambda cloud: cloud.execute(update(models.Port).values(**values))


def audit(**found: Any) -> Callable[[Cloud], None]:
    return lambda cloud: cloud.execute(update(models.NodeAudit).values(found=NodeAudit(**found)))


def silence(binary: str) -> Callable[[Cloud], None]:
    return lambda cloud: cloud.let_services_report(but=binary)


def rows(statement: Any) -> Callable[[Cloud], None]:
    return lambda cloud: cloud.execute(statement)


def own(name: str, text: str, mode: int = 0o640) -> Callable[[Cloud], None]:
    return lambda cloud: cloud.write_own(name, text, mode)


def forced_and_silent(cloud: Cloud) -> None:
    service("minova-compute", hosts=BOTH, forced_down=True)(cloud)
    silence("minova-compute")(cloud)


AUTHORITIES_OF_BROKER = "[oslo_messaging_rabbit]\nssl = true\nssl_ca_file = /nowhere/ca.crt\n"
BROKER = "transport_url = rabbit://minova:SECRET@127.0.0.1:1/"


def option(line: str) -> Callable[[Cloud], None]:
    def write(cloud: Cloud) -> None:
        cloud.options = line

    return write


def no_tables(cloud: Cloud) -> None:
    (cloud.folder / "minova.sqlite").unlink()


def old_tables(cloud: Cloud) -> None:
    cloud.execute(text("UPDATE minova_schema SET version_num = '0005', oldest = '0005'"))


def task(**values: Any) -> Callable[[Cloud], None]:
    def add(cloud: Cloud) -> None:
        worker = str(uuid.uuid4())
        row = {
            "kind": "reboot",
            "instance_uuid": cloud.server,
            "reservation_id": "r",
            "worker_id": worker,
            "step": "action",
            "request_id": "req",
            "payload": {},
            "wake_at": 9e9,
            "deadline": 9e9,
            "created_at": LONG_AGO,
            **values,
        }
        lease = {"id": worker, "host": "c", "lease_until": values.pop("lease", 9e9), "cloud_clock": True}
        row.pop("lease", None)
        cloud.execute(insert(models.Worker).values(lease))
        cloud.execute(insert(models.Task).values(row))

    return add


def unexpected_guest(cloud: Cloud) -> None:
    mark = GuestMark(uuid=str(uuid.uuid4()), name="g")
    cloud.run(
        lambda session: session.add(
            models.UnexpectedGuest(
                host="hv1", uuid=mark.uuid, reason="no_row", mark=mark, record=None, seen_at=LONG_AGO, remove_at=None
            )
        )
    )


def unexpected_image(cloud: Cloud) -> None:
    cloud.run(
        lambda session: session.add(
            models.UnexpectedImage(
                store="api2",
                id=str(uuid.uuid4()),
                reason="no_row",
                size=7,
                image=None,
                seen_at=LONG_AGO,
                remove_at=None,
            )
        )
    )


def no_bytes(cloud: Cloud) -> None:
    (cloud.store / cloud.image).unlink()


def fewer_bytes(cloud: Cloud) -> None:
    (cloud.store / cloud.image).write_bytes(b"\1" * 100)


def bytes_without_row(cloud: Cloud) -> None:
    (cloud.store / str(uuid.uuid4())).write_bytes(b"x")


def address_outside(cloud: Cloud) -> None:
    cloud.execute(update(models.IpAllocation).values(address="192.0.2.77"))


def address_twice(cloud: Cloud) -> None:
    def add(session: Session) -> None:
        table: Any = models.Subnet.__table__
        (mapping,) = session.execute(table.select()).mappings()
        twin = {**mapping, "id": mapping["id"] + 1, "uuid": str(uuid.uuid4())}
        session.execute(insert(table).values(twin))
        (held,) = session.execute(models.IpAllocation.__table__.select()).mappings()
        session.execute(insert(models.IpAllocation).values({**held, "subnet_id": twin["id"]}))

    cloud.run(add)


def open_passwords(cloud: Cloud) -> None:
    file = Path(cloud.words[1])
    file.write_text(file.read_text() + PASSWORDS.partition("\n")[2])
    file.chmod(0o644)


def open_key(cloud: Cloud) -> None:
    key = cloud.folder / "key.pem"
    key.write_text("key")
    key.chmod(0o644)
    file = Path(cloud.words[1])
    file.write_text(f"{file.read_text()}ssl_key_file = {key}\n")


def open_folder(cloud: Cloud) -> None:
    cloud.store.chmod(0o755)


def certificate(cloud: Cloud) -> None:
    """Of two days."""
    file = Path(cloud.words[1])
    authority = Authority(cloud.folder / "ca")
    file.write_text(f"{file.read_text()}ssl_cert_file = {authority.certificate}\n")


def no_certificate(cloud: Cloud) -> None:
    file = Path(cloud.words[1])
    file.write_text(f"{file.read_text()}ssl_cert_file = {cloud.image}.pem\n")


def key_of_a_service(cloud: Cloud) -> None:
    (cloud.folder / "key.pem").touch(0o644)
    (cloud.folder / "key.pem").chmod(0o644)
    cloud.write_own("minova-api.conf", f"[api]\nssl_key_file = {cloud.folder}/key.pem\n")


def certificate_of_a_service(cloud: Cloud) -> None:
    """Of two days."""
    authority = Authority(cloud.folder / "ca")
    cloud.write_own("minova-api.conf.d/tls.conf", f"[api]\nssl_cert_file = {authority.certificate}\n")


def certificates_of_migrations(cloud: Cloud, *, lacks: str = "") -> None:
    """Of two days."""
    authority = Authority(cloud.folder / "ca")
    names = [f"{name}-cert.pem" for name in ("ca", "server", "client")]
    files = [certificates.PKI / "qemu" / name for name in names if name != lacks]
    files[0].parent.mkdir(parents=True)
    for file in files:
        shutil.copy(authority.certificate, file)
    lines = "live_migration_with_native_tls = true\nlive_migration_scheme = tcp\n"
    cloud.write_own("minova-compute.conf", f"[DEFAULT]\ncompute_driver = libvirt.LibvirtDriver\n[libvirt]\n{lines}")


def file_of_two_services(cloud: Cloud) -> None:
    cloud.write_own("minova-conductor.conf", "[DEFAULT]\nno_such_optoin = 1\n")
    (Path.home() / ".minova" / "minova-manage.conf").symlink_to("minova-conductor.conf")


KEY = "A" * 43 + "="


def secret_of_another_key(cloud: Cloud) -> None:
    file = cloud.folder / "keys"
    file.write_text(KEY)
    file.chmod(0o640)
    cloud.options = f"[guest_secrets]\nkey_file = {file}\n"
    row = {"instance_uuid": cloud.server, "value": "0123abcd:AAAA", "created_at": LONG_AGO}
    cloud.execute(insert(models.GuestSecret).values([{**row, "kind": kind} for kind in ("disks", "tpm")]))


def offer_of_other_conductors(cloud: Cloud) -> None:
    def add(session: Session) -> None:
        provider = session.scalars(models.ResourceProvider.__table__.select()).first()
        session.add(models.ProviderTrait(provider_id=provider, trait="COMPUTE_SECURITY_TPM_2_0"))

    cloud.run(add)


def conductors_of_two_keys(cloud: Cloud) -> None:
    def add(session: Session) -> None:
        mine = session.scalars(select(models.Service).where(models.Service.binary == "minova-conductor")).first()
        assert mine is not None
        mine.guest_keys = "0123abcd"
        other: dict[str, Any] = {
            "version": mine.version,
            "uuid": str(uuid.uuid4()),
            "host": "another",
            "topic": mine.topic,
            "guest_keys": "",
            "created_at": LONG_AGO,
        }
        session.add(models.Service(binary=mine.binary, **other))
        session.flush()
        seen = session.scalars(select(models.Heartbeat.last_seen).where(models.Heartbeat.service_id == mine.id)).one()
        added = session.scalars(select(models.Service.id).where(models.Service.host == "another")).one()
        session.add(models.Heartbeat(service_id=added, last_seen=seen))

    cloud.run(add)


# (what is done, the area of the findings, the exit code); what the doctor says of it stands in doctor_says.txt
FAULTS: dict[str, tuple[Callable[[Cloud], None], str, int]] = {
    "no tables": (no_tables, "database", 2),
    "old tables": (old_tables, "database", 2),
    "another database server": (
        lambda cloud: setattr(cloud, "url", "postgresql+psycopg://minova:SECRET@127.0.0.1:1/minova"),
        "database",
        2,
    ),
    "secrets of another key": (secret_of_another_key, "secrets", 2),
    "a conductor without a key": (offer_of_other_conductors, "secrets", 2),
    "conductors of two keys": (conductors_of_two_keys, "secrets", 2),
    "no identity": (rows(delete(models.Cloud)), "database", 2),
    "safe mode": (rows(update(models.Cloud).values(safe_since=1.0, safe_reason="changes are lost")), "database", 2),
    "a clock that stands": (rows(update(Clock).values(wall=EpochNow() - 100)), "clocks", 2),
    "a silent compute": (silence("minova-compute"), "services", 2),
    "no scheduler": (rows(delete(models.Service).where(models.Service.binary == "minova-scheduler")), "services", 2),
    "libvirt away": (service("minova-compute", down_reason="libvirt does not answer"), "services", 2),
    "libvirt away everywhere": (
        service("minova-compute", hosts=BOTH, down_reason="libvirt does not answer"),
        "services",
        2,
    ),
    "a stopped compute": (service("minova-compute", down_reason=STOPPED), "services", 2),
    "every compute stopped": (service("minova-compute", hosts=BOTH, down_reason=STOPPED), "services", 2),
    "a forced host": (service("minova-compute", forced_down=True), "services", 1),
    "the only forced host": (service("minova-compute", hosts=BOTH, forced_down=True), "services", 1),
    "a forced host that is off": (forced_and_silent, "services", 2),
    "a refused report": (service("minova-compute", refused_report="vcpus is negative"), "services", 2),
    "an older release": (service("minova-compute", version=0), "versions", 1),
    "no audits": (rows(update(models.NodeAudit).values(audited_at=LONG_AGO)), "audits", 2),
    "an overdue task": (task(deadline=-1000.0), "tasks", 2),
    "a task of a dead conductor": (task(lease=-1000.0), "tasks", 2),
    "a task state without task": (instance(task_state="rebooting", updated_at=LONG_AGO), "tasks", 2),
    "a paused guest": (instance(power_state=3), "guests", 2),
    "a crashed guest": (instance(power_state=6), "guests", 2),
    "a guest that is off": (instance(power_state=4), "guests", 2),
    "a guest of a stopped server": (instance(vm_state="stopped"), "guests", 2),
    "an unexpected guest": (unexpected_guest, "guests", 2),
    "a conflict": (audit(conflicts=("two rows",)), "guests", 2),
    "a guest to be removed": (audit(unexpected_domains=("g",)), "guests", 1),
    "a removed node": (instance(node="gone"), "guests", 2),
    "no allocation": (rows(delete(models.Allocation)), "allocations", 2),
    "a wrong count": (rows(update(models.Inventory).values(used=models.Inventory.used + 1)), "allocations", 2),
    "an address outside": (address_outside, "addresses", 2),
    "an address twice": (address_twice, "addresses", 2),
    "a port without server": (port(instance_uuid=str(uuid.uuid4())), "addresses", 2),
    "a port elsewhere": (port(host="hv9"), "addresses", 2),
    "no bytes": (no_bytes, "images", 2),
    "fewer bytes": (fewer_bytes, "images", 2),
    "bytes without row": (bytes_without_row, "images", 1),
    "bytes in another store": (unexpected_image, "images", 2),
    "open passwords": (open_passwords, "files", 2),
    "an open key": (open_key, "files", 2),
    "an open folder": (open_folder, "files", 2),
    "a certificate that ends": (certificate, "certificates", 1),
    "no certificate": (no_certificate, "certificates", 2),
    "a misspelt option": (option("my_ipp = 192.0.2.1"), "options", 1),
    "a full host": (rows(update(models.ComputeNode).values(disk_available_least=-3)), "space", 1),
    "no broker": (option(BROKER), "broker", 2),
}

# Faults in files that only some services read, or that units read and minova-manage was not told of.
FAULTS_OF_FILES: dict[str, tuple[Callable[[Cloud], None], str, int]] = {
    "open passwords of a service": (own("minova-conductor.conf", PASSWORDS, 0o644), "files", 2),
    "open passwords in a folder of all": (own("minova.conf.d/10-neutron.conf", PASSWORDS, 0o644), "files", 2),
    "open passwords in a folder of a service": (own("minova-api.conf.d/10-neutron.conf", PASSWORDS, 0o644), "files", 2),
    "an open key of a service": (key_of_a_service, "files", 2),
    "an option of a service": (own("minova-scheduler.conf", "[DEFAULT]\nno_such_optoin = 1\n"), "options", 1),
    "an older name of an option": (own("minova-compute.conf", "[DEFAULT]\nlibvirt_type = qemu\n"), "options", 1),
    "a protection": (own("minova-compute.conf", "[glance]\nverify_glance_signatures = true\n"), "options", 2),
    "a wrong value": (own("minova-conductor.conf", "[DEFAULT]\nservice_down_time = soon\n"), "options", 2),
    "a wrong value of a library": (
        own("minova.conf.d/rabbit.conf", "[oslo_messaging_rabbit]\nssl = soon\n"),
        "options",
        2,
    ),
    "no option": (own("minova-metadata.conf", "no option\n"), "options", 2),
    "authorities of a broker": (own("minova-conductor.conf", AUTHORITIES_OF_BROKER), "certificates", 2),
    "authorities of Keystone": (
        own("minova-api.conf", "[keystone_authtoken]\ncafile = /nowhere/ca.crt\n"),
        "certificates",
        2,
    ),
    "a certificate of a service that ends": (certificate_of_a_service, "certificates", 1),
    "certificates of migrations that end": (certificates_of_migrations, "certificates", 1),
    "no certificate of migrations": (partial(certificates_of_migrations, lacks="client-cert.pem"), "certificates", 2),
    "a broker of conductors alone": (own("minova-conductor.conf", f"[DEFAULT]\n{BROKER}\n"), "broker", 2),
    "one file of two services": (file_of_two_services, "options", 1),
}

FIRST = {area: name for name, (_, area, _) in reversed(FAULTS.items())}
TRIED = [*(FAULTS if os.environ.get("MINOVA_DOCTOR") == "all" else sorted(FIRST.values())), *FAULTS_OF_FILES]
SAID = Path(__file__).with_name("doctor_says.txt")


def said_of(name: str) -> str:
    """Returns what the doctor says of this fault, with UUID and N for what differs each time."""
    sections = dict(section.split("\n", 1) for section in SAID.read_text().split("== ")[1:])
    return sections.get(name, "").strip()


@pytest.mark.parametrize("name", TRIED)
def test_it_finds(name: str, cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole of what it says, since a second finding may be false, and advice, too."""
    inject, area, code = {**FAULTS, **FAULTS_OF_FILES}[name]
    inject(cloud)
    assert run(cloud.words) == code
    out = capsys.readouterr().out
    assert cloud.without_names(out) == said_of(name)
    lines = [line for line in out.splitlines() if not line.startswith("         mend: ")]
    assert {line.split()[1] for line in lines} == {f"{area}:"}
    assert "SECRET" not in out


def test_each_fault_has_its_findings() -> None:
    sections = [section.partition("\n")[0] for section in SAID.read_text().split("== ")[1:]]
    assert sections == [*FAULTS, *FAULTS_OF_FILES]


@pytest.mark.parametrize(
    ("options", "is_running", "unit"),
    [("", False, "minova-standalone"), (BROKER, True, "minova-standalone"), (BROKER, False, "minova-compute")],
)
def test_it_names_the_unit_that_runs_a_service(
    cloud: Cloud, capsys: pytest.CaptureFixture[str], *, options: str, is_running: bool, unit: str
) -> None:
    """Bug: the files of minova-standalone stay when separate services follow. To start it beside them was the advice."""
    (cloud.folder / MADE).touch()
    (cloud.folder / "lock").touch(0o600)
    cloud.options = options
    service("minova-compute", down_reason=STOPPED)(cloud)
    with (cloud.folder / "lock").open() as lock:
        if is_running:
            fcntl.flock(lock, fcntl.LOCK_EX)
        assert run(cloud.words) == 2
    said = capsys.readouterr().out
    assert f"on hv1: systemctl start {unit}\n" in said
    (other,) = {"minova-standalone", "minova-compute"} - {unit}
    assert f"systemctl start {other}" not in said


def test_it_finds_a_clock_of_this_machine_that_is_wrong(
    cloud: Cloud, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + 60)
    assert run(cloud.words) == 2
    assert "the clock of this machine differs from that of the database server: by 60 s" in capsys.readouterr().out


def test_it_finds_a_full_file_system(
    cloud: Cloud, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storages, "space", lambda folder: (1000 << 20, 10 << 20))
    assert run(cloud.words) == 2
    assert f"the file system of {cloud.store} (images_path) is nearly full" in capsys.readouterr().out


def test_it_finds_queues_without_readers_and_queues_that_grow() -> None:
    depth_by_queue = {"conductor": Depth(5, 1), "scheduler": Depth(5000, 2), "compute.hv1": Depth(3, 0)}
    findings = list(judge(("conductor", "scheduler", "compute.hv1", "conductor_api"), depth_by_queue))
    assert [(finding.subject, finding.problem) for finding in findings] == [
        ("scheduler", "grows"),
        ("compute.hv1", "is read by no service"),
        ("conductor_api", "is read by no service"),
    ]
    assert findings[1].mend == "systemctl start minova-compute"


def test_a_fault_that_is_gone_at_the_second_reading_is_not_shown(
    cloud: Cloud, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    instance(power_state=3)(cloud)
    monkeypatch.setattr(time, "sleep", lambda seconds: instance(power_state=1)(cloud))
    assert run(cloud.words) == 0
    assert capsys.readouterr().out == ""


def test_a_guest_that_sleeps_is_no_fault(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    """Its user lets it sleep, and would else decide the exit code that an operator watches."""
    instance(power_state=7)(cloud)
    assert run(cloud.words) == 0
    assert capsys.readouterr().out == ""
