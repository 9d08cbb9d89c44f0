"""`minova-manage doctor` says nothing about a healthy cloud, and finds each of these faults.

Each fault takes half a second: the first of each area is tried here, and all of them with MINOVA_DOCTOR=all (tools/check nightly).
"""

import fcntl
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import urllib3
from sqlalchemy import delete, insert, select, text, update
from sqlalchemy.orm import Session

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
        file = self.folder / "minova.conf"
        if not file.exists():
            file.touch(0o640)
            self._write(file)
        return ["--config-file", str(file), "doctor"]

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


def service(binary: str, **values: Any) -> Callable[[Cloud], None]:
    return lambda cloud: cloud.execute(update(models.Service).where(models.Service.binary == binary).values(**values))


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


# (what is done, the area of the finding, a part of its first line, the exit code)
FAULTS: dict[str, tuple[Callable[[Cloud], None], str, str, int]] = {
    "no tables": (no_tables, "database", "minova.sqlite is not there", 2),
    "old tables": (old_tables, "database", "the schema does not fit", 2),
    "another database server": (
        lambda cloud: setattr(cloud, "url", "postgresql+psycopg://minova:SECRET@127.0.0.1:1/minova"),
        "database",
        "127.0.0.1:1/minova does not answer",
        2,
    ),
    "secrets of another key": (
        secret_of_another_key,
        "secrets",
        "the key 0123abcd encrypts secrets of guests, and this machine lacks it",
        2,
    ),
    "a conductor without a key": (
        offer_of_other_conductors,
        "secrets",
        "the conductor of this machine has no key, and others have one",
        2,
    ),
    "conductors of two keys": (
        conductors_of_two_keys,
        "secrets",
        "conductors have different keys for secrets of guests",
        2,
    ),
    "no identity": (rows(delete(models.Cloud)), "database", "has no identity", 2),
    "safe mode": (
        rows(update(models.Cloud).values(safe_since=1.0, safe_reason="changes are lost")),
        "database",
        "is in safe mode: changes are lost",
        2,
    ),
    "a clock that stands": (
        rows(update(Clock).values(wall=EpochNow() - 100)),
        "clocks",
        "the cloud clock stands still",
        2,
    ),
    "a silent compute": (silence("minova-compute"), "services", "minova-compute on hv1 is down", 2),
    "no scheduler": (
        rows(delete(models.Service).where(models.Service.binary == "minova-scheduler")),
        "services",
        "minova-scheduler runs on no host",
        2,
    ),
    "libvirt away": (
        service("minova-compute", down_reason="libvirt does not answer"),
        "services",
        "reports that it cannot work: libvirt does not answer",
        2,
    ),
    "a stopped compute": (
        service("minova-compute", down_reason=STOPPED),
        "services",
        "minova-compute on hv1 has been stopped",
        2,
    ),
    "a forced host": (service("minova-compute", forced_down=True), "services", "was forced down", 2),
    "a refused report": (
        service("minova-compute", refused_report="vcpus is negative"),
        "services",
        "reports what is refused: vcpus is negative",
        2,
    ),
    "an older release": (service("minova-compute", version=0), "versions", "runs an older release", 1),
    "no audits": (
        rows(update(models.NodeAudit).values(audited_at=LONG_AGO)),
        "audits",
        "is not audited",
        2,
    ),
    "an overdue task": (task(deadline=-1000.0), "tasks", "is past its time", 2),
    "a task of a dead conductor": (task(lease=-1000.0), "tasks", "have no living conductor", 2),
    "a task state without task": (
        instance(task_state="rebooting", updated_at=LONG_AGO),
        "tasks",
        "waits for a task that is not there",
        2,
    ),
    "a paused guest": (instance(power_state=3), "guests", "stands still", 2),
    "a crashed guest": (instance(power_state=6), "guests", "has crashed", 2),
    "a guest of a stopped server": (instance(vm_state="stopped"), "guests", "runs though its server is stopped", 2),
    "an unexpected guest": (unexpected_guest, "guests", "on hv1", 2),
    "a conflict": (audit(conflicts=("two rows",)), "guests", "contradicts its rows: two rows", 2),
    "a guest to be removed": (audit(unexpected_domains=("g",)), "guests", "must not be there any more: g", 1),
    "a removed node": (instance(node="gone"), "guests", "is on a node that is not there: gone", 2),
    "no allocation": (rows(delete(models.Allocation)), "allocations", "instance without allocation", 2),
    "a wrong count": (
        rows(update(models.Inventory).values(used=models.Inventory.used + 1)),
        "allocations",
        "wrong used",
        2,
    ),
    "an address outside": (address_outside, "addresses", "192.0.2.77 of port", 2),
    "an address twice": (address_twice, "addresses", "is given to two ports", 2),
    "a port without server": (
        port(instance_uuid=str(uuid.uuid4())),
        "addresses",
        "belongs to a server that is not there",
        2,
    ),
    "a port elsewhere": (port(host="hv9"), "addresses", "is bound to another host than its server: hv9", 2),
    "no bytes": (no_bytes, "images", "has a record and no bytes", 2),
    "fewer bytes": (fewer_bytes, "images", "100 bytes, and 512 are recorded", 2),
    "bytes without row": (bytes_without_row, "images", "has no record of an image", 1),
    "bytes in another store": (unexpected_image, "images", "in the store of api2 have no record", 2),
    "open passwords": (open_passwords, "files", "can be read by all users, and holds passwords", 2),
    "an open key": (open_key, "files", "is a key ([api] ssl_key_file)", 2),
    "an open folder": (open_folder, "files", "images is open to all users", 2),
    "a certificate that ends": (certificate, "certificates", "ends soon", 1),
    "no certificate": (no_certificate, "certificates", "cannot be used", 2),
    "a misspelt option": (option("my_ipp = 192.0.2.1"), "options", "[DEFAULT] my_ipp in", 1),
    "a full host": (
        rows(update(models.ComputeNode).values(disk_available_least=-3)),
        "space",
        "has no space for all that its guests may still write: -3 GB",
        1,
    ),
    "no broker": (
        option(BROKER),
        "broker",
        "the message broker does not answer",
        2,
    ),
}


FIRST = {area: name for name, (_, area, _, _) in reversed(FAULTS.items())}
TRIED = list(FAULTS) if os.environ.get("MINOVA_DOCTOR") == "all" else sorted(FIRST.values())


@pytest.mark.parametrize("name", TRIED)
def test_it_finds(name: str, cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    inject, area, expected, code = FAULTS[name]
    inject(cloud)
    assert run(cloud.words) == code
    out = capsys.readouterr().out
    lines = [line for line in out.splitlines() if not line.startswith("         mend: ")]
    assert any(f" {area}: " in line and expected in line for line in lines), out
    assert {line.split()[1] for line in lines} == {f"{area}:"}, out
    assert out.count("         mend: ") == len(lines)
    assert "SECRET" not in out


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
