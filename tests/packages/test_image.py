"""The image of the controllers is built by the Containerfile; one of its services starts, answers and stops."""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.packages.debian_tree import HOST_FILES, ROOT, run
from tests.servers.private_server import free_ports

# Nothing here runs in namespaces of its own, which not every machine of tests allows.
BUILDAH = ("buildah", "--storage-driver=vfs")
CHROOT = "--isolation=chroot"
AUTHORITIES = "/authorities.crt"
pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def container() -> Iterator[str]:
    """A container of the image. Its base is a Debian made here, because no registry of images is needed then."""
    # Not in its own place, where the package ca-certificates writes it.
    volumes = [f"--volume={HOST_FILES[0]}:{AUTHORITIES}:ro"]
    with tempfile.TemporaryDirectory(prefix="minova-image-", dir="/var/tmp") as name:
        folder = Path(name)
        # A variable of `buildah build --env` does not reach the commands of the Containerfile.
        (folder / "pip.conf").write_text(f"[global]\ncert = {AUTHORITIES}\n")
        volumes.append(f"--volume={folder / 'pip.conf'}:/etc/pip.conf:ro")
        buildah = (*BUILDAH, f"--root={folder / 'storage'}", f"--runroot={folder / 'run'}")
        run("mmdebstrap", "--variant=apt", "bookworm", folder / "debian.tar")
        base = run(*buildah, "from", "scratch").strip()
        run(*buildah, "add", base, folder / "debian.tar", "/")
        run(*buildah, "commit", "--quiet", base, "localhost/debian")
        build = ("build", CHROOT, "--network=host", "--build-arg=BASE=localhost/debian", "--tag=minova", *volumes)
        run(*buildah, *build, "--file", ROOT / "packaging/Containerfile", ROOT)
        container_id = run(*buildah, "from", "localhost/minova").strip()
        try:
            yield " ".join([*buildah, "run", CHROOT, container_id, "--"])
        finally:
            subprocess.run([*buildah, "rm", "--all"], check=True, stdout=subprocess.DEVNULL)
            subprocess.run([*buildah, "rmi", "--all", "--force"], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("command", ["api", "conductor", "scheduler", "placement-api", "consoleproxy"])
def test_each_service_of_a_controller_is_there(container: str, command: str) -> None:
    assert version("minova") in run(*container.split(), f"minova-{command}", "--version")


def test_services_have_a_user_of_their_own_and_its_folder(container: str) -> None:
    assert run(*container.split(), "id", "-un") == "minova\n"
    upgrade = "minova-manage db upgrade && stat -c %a /var/lib/minova/minova.sqlite"
    assert run(*container.split(), "sh", "-c", upgrade).endswith("600\n")


SERVE = """
set -e
cat >/var/lib/minova/serve.conf
minova-manage --config-file /var/lib/minova/serve.conf db upgrade
minova-placement-api --config-file /var/lib/minova/serve.conf & service=$!
python3 -c '
import time, urllib.request
until = time.monotonic() + 120
while True:
    try:
        print(urllib.request.urlopen("http://127.0.0.1:PORT/").read().decode())
        break
    except OSError:
        if time.monotonic() > until:
            raise
        time.sleep(0.5)
'
kill $service
wait $service
"""


def test_a_service_answers_and_stops_by_a_signal(container: str) -> None:
    port, page = free_ports(2)
    options = (
        "[database]\nconnection = sqlite:////var/lib/minova/serve.sqlite\n"
        f"[placement]\nlisten = 127.0.0.1\nlisten_port = {port}\n[prometheus]\nport = {page}\n"
    )
    script = SERVE.replace("PORT", str(port))
    done = subprocess.run(
        [*container.split(), "sh", "-c", script], input=options, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (answer,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert json.loads(answer)["versions"]
