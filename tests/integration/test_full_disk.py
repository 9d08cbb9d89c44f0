"""A disk that is really full: a small file system of its own under the image store, or under the instances."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minova.db.engine import Database
from tests.integration.deployment import Deployment
from tests.integration.leftovers import domains_and_disks, leftovers_in_tables
from tests.integration.test_standalone import Standalone
from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(300)

MB = 1 << 20
# Room for one image, and not for two; the tiny file system of a host has none for either.
STORE_MB, HOST_MB, IMAGE_MB = 6, 3, 4
CAP_MB = 5
SMALL, OTHER = "hv-small", "hv-other"


@contextlib.contextmanager
def small_disk(folder: Path, size_mb: int) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(folder)], check=True, timeout=120)
    try:
        yield folder
    finally:
        # Lazily, since a service that is being killed may still hold a file.
        subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=120)


@pytest.fixture(scope="module")
def database_url(fresh_postgresql_url: Callable[[], str]) -> str:
    return fresh_postgresql_url()


@pytest.fixture(scope="module")
def libvirtd() -> Iterator[Libvirtd]:
    """One of its own: other tests look for what is left on theirs."""
    with Libvirtd() as server:
        yield server


@pytest.fixture(scope="module")
def cloud(
    tmp_path_factory: pytest.TempPathFactory,
    fresh_rabbit_url: Callable[[], str],
    database_url: str,
    libvirtd: Libvirtd,
) -> Iterator[Deployment]:
    """One host with a disk too small for any image, and one that needs none."""
    folder = tmp_path_factory.mktemp("cloud")
    with (
        small_disk(folder / "store", STORE_MB) as store,
        small_disk(folder / SMALL / "state" / "instances", HOST_MB),
        Deployment(
            folder,
            fresh_rabbit_url(),
            database_url,
            api={"images_path": store, "image_size_cap": CAP_MB * MB},
            DEFAULT={"free_space_reserve_mb": 0},
        ) as deployment,
    ):
        # A flavor without a disk asks the scheduler for no room, so that the host itself must notice.
        deployment.compute(SMALL, libvirt={"connection_uri": libvirtd.uri, "virt_type": "qemu"})
        # Small enough to be the second choice.
        books = {"compute_driver": "fake", "fake_memory_mb": 1024, "fake_vcpus": 1, "fake_local_gb": 0}
        deployment.compute(OTHER, DEFAULT=books)
        deployment.manage("db", "upgrade")
        deployment.start()
        deployment.wait_up()
        deployment.cli("flavor", "create", "tiny", "--ram", "128", "--disk", "0", "--vcpus", "1")
        (folder / "image.raw").write_bytes(os.urandom(IMAGE_MB * MB))
        upload(deployment, "fits")
        yield deployment


def upload(cloud: Deployment, name: str, *, check: bool = True) -> str:
    file = str(cloud.folder / "image.raw")
    return cloud.cli("image", "create", name, "--file", file, "--disk-format", "raw", check=check)


def test_an_upload_to_a_full_store_says_so_and_leaves_nothing(cloud: Deployment) -> None:
    store = cloud.folder / "store"
    before = sorted(path.name for path in store.iterdir())
    output = upload(cloud, "too-much", check=False)
    assert "no room left in the image store" in output
    assert "Traceback" not in output
    assert sorted(path.name for path in store.iterdir()) == before
    assert [row["Name"] for row in cloud.json("image", "list") if row["Status"] == "active"] == ["fits"]


def test_an_image_beyond_the_cap_is_refused_before_its_bytes_come(cloud: Deployment) -> None:
    file = cloud.folder / "larger.raw"
    file.write_bytes(bytes((CAP_MB + 1) * MB))
    output = cloud.cli("image", "create", "larger", "--file", str(file), "--disk-format", "raw", check=False)
    assert f"The image is larger than {CAP_MB * MB} bytes" in output


def test_a_build_on_a_full_disk_ends_with_the_reason_and_leaves_nothing(
    cloud: Deployment, libvirtd: Libvirtd, database_url: str
) -> None:
    zone = f"nova:{SMALL}"
    words = ["--flavor", "tiny", "--image", "fits", "--availability-zone", zone, "--wait"]
    output = cloud.cli("server", "create", "stuck", *words, check=False)
    assert "bytes free" in output
    assert cloud.server("stuck")["status"] == "ERROR"
    assert list((cloud.folder / SMALL / "state" / "instances" / "_base").glob("*.part")) == []
    cloud.cli("server", "delete", "stuck", "--wait")
    database = Database(database_url)
    try:
        wait_for("nothing is left", lambda: leftovers_in_tables(database) == [])
    finally:
        database.close()
    assert domains_and_disks(libvirtd.uri, cloud.folder / SMALL) == []


def test_a_build_that_finds_the_disk_full_goes_to_the_next_alternate(cloud: Deployment) -> None:
    cloud.cli("server", "create", "vm", "--flavor", "tiny", "--image", "fits", "--wait")
    assert cloud.server("vm")["OS-EXT-SRV-ATTR:host"] == OTHER
    log = cloud.services["conductor"].log
    assert f"on {SMALL} failed" in log
    cloud.cli("server", "delete", "vm", "--wait")


def heartbeat(cloud: Deployment) -> str:
    """When the small host was last heard; empty: it is not up."""
    (row,) = [row for row in cloud.json("service", "list") if row["Host"] == SMALL]
    return str(row["Updated At"]) if row["State"] == "up" else ""


def test_host_with_a_full_disk_is_up_and_deletes(cloud: Deployment, libvirtd: Libvirtd) -> None:
    instances = cloud.folder / SMALL / "state" / "instances"
    filler = fill(instances)
    try:
        words = ["--flavor", "tiny", "--image", "fits", "--availability-zone", f"nova:{SMALL}", "--wait"]
        cloud.cli("server", "create", "none", *words, check=False)
        assert cloud.server("none")["status"] == "ERROR"
        before = heartbeat(cloud)
        wait_for("the next heartbeats", lambda: heartbeat(cloud) > before, 60)
        cloud.cli("server", "delete", "none", "--wait")
        assert domains_and_disks(libvirtd.uri, cloud.folder / SMALL) == []
    finally:
        filler.unlink()


# -- the database on the full disk ---------------------------------------------------------------------------------------


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Standalone]:
    """All of a cloud on one small file system: database, images, disks."""
    options = {"compute_driver": "fake", "report_interval": 1, "service_down_time": 6, "free_space_reserve_mb": 4}
    with small_disk(tmp_path / "state", 96):
        standalone = Standalone(tmp_path, **options)
        try:
            yield standalone
        finally:
            standalone.kill()


def fill(folder: Path) -> Path:
    """Until not even a page has room."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (MB, 4096):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
    assert os.statvfs(folder).f_bavail == 0
    return filler


def heartbeats(cloud: Standalone) -> dict[str, tuple[str, str]]:
    return {row["Binary"]: (row["State"], row["Updated At"]) for row in cloud.json("service", "list")}


def refused_at_last(cloud: Standalone) -> bool:
    """Servers are made as long as there is room in what SQLite has of the disk already."""
    command = [*cloud.cli_command("server", "create", "more", "--flavor", "m1.nano", "--image", "guest")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        assert "There is no room left for the database" in done.stderr
    return bool(done.returncode)


def test_full_disk_stops_neither_deletes_nor_heartbeats(alone: Standalone) -> None:
    alone.start()
    ballast = alone.folder / "state" / "minova.sqlite-ballast"
    assert ballast.exists()
    (alone.folder / "guest.raw").write_bytes(bytes(MB))
    alone.cli("image", "create", "guest", "--file", str(alone.folder / "guest.raw"), "--disk-format", "raw")
    for name in ("one", "two"):
        alone.cli("server", "create", name, "--flavor", "m1.nano", "--image", "guest", "--wait")
    filler = fill(alone.folder / "state")
    wait_for("a create that finds no room", lambda: refused_at_last(alone), 120)
    assert not ballast.exists()

    alone.cli("server", "delete", "one", "--wait")
    before = heartbeats(alone)
    later = lambda: all(state == "up" and at > before[name][1] for name, (state, at) in heartbeats(alone).items())  # noqa: E731
    wait_for("heartbeats of every service go on", later, 60)
    alone.cli("server", "delete", "two", "--wait")
    assert refused_at_last(alone)

    filler.unlink()
    alone.cli("server", "create", "three", "--flavor", "m1.nano", "--image", "guest", "--wait")
    assert ballast.exists()
