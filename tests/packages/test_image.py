"""The image of the controllers is built by the Containerfile, and its services start."""

import subprocess
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.packages.debian_tree import HOST_FILES, ROOT, run

# Nothing here runs in namespaces of its own, which not every machine of tests allows.
BUILDAH = ("buildah", "--storage-driver=vfs")
CHROOT = "--isolation=chroot"
pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def container() -> Iterator[str]:
    """A container of the image. Its base is a Debian made here, because no registry of images is needed then."""
    volumes = [f"--volume={file}:{file}:ro" for file in HOST_FILES]
    with tempfile.TemporaryDirectory(prefix="minova-image-", dir="/var/tmp") as name:
        folder = Path(name)
        buildah = (*BUILDAH, f"--root={folder / 'storage'}", f"--runroot={folder / 'run'}")
        run("mmdebstrap", "--variant=apt", "bookworm", folder / "debian.tar")
        base = run(*buildah, "from", "scratch").strip()
        run(*buildah, "add", base, folder / "debian.tar", "/")
        run(*buildah, "commit", "--quiet", base, "localhost/debian")
        build = ("build", CHROOT, "--network=host", "--build-arg=BASE=localhost/debian", "--tag=minova", *volumes)
        certificates = f"--env=PIP_CERT={HOST_FILES[0]}"
        run(*buildah, *build, certificates, "--file", ROOT / "packaging/Containerfile", ROOT)
        made = run(*buildah, "from", "localhost/minova").strip()
        try:
            yield " ".join([*buildah, "run", CHROOT, made, "--"])
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
