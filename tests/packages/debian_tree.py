"""A fresh Debian in a folder, with minova's packages built from the tree."""

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Certificates by which pip and apt reach their registries here.
HOST_FILES = ("/etc/ssl/certs/ca-certificates.crt",)


def run(*words: object) -> str:
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}"
    return done.stdout


@cache
def built_packages() -> Path:
    """Returns the folder of minova's packages. They are built once: it takes minutes. `MINOVA_DEBIAN_PACKAGES` names those that
    packaging/build-debian-packages has built before.
    """
    if given := os.environ.get("MINOVA_DEBIAN_PACKAGES"):
        return Path(given)
    folder = Path(tempfile.mkdtemp(prefix="minova-packages-", dir="/var/tmp"))
    atexit.register(shutil.rmtree, folder)
    run(ROOT / "packaging/build-debian-packages", folder)
    return folder


@contextmanager
def debian_with_minova(*included: str) -> Iterator[Path]:
    """Yields the folder of a Debian that has minova's packages and those of Debian that are `included`."""
    # Not below /tmp of the tests: a Debian has device files and its own users.
    folder = Path(tempfile.mkdtemp(prefix="minova-debian-", dir="/var/tmp"))
    try:
        root = folder / "root"
        # dpkg would wait for the disk after each file of a tree that lives for one run.
        fast = "--dpkgopt=force-unsafe-io"
        run("mmdebstrap", "--variant=apt", fast, *[f"--include={name}" for name in included], "bookworm", root)
        for file in HOST_FILES:
            (root / file.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, root / file.lstrip("/"))
        (root / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
        (root / "usr/sbin/policy-rc.d").chmod(0o755)
        shutil.copytree(built_packages(), root / "packages")
        packages = [f"/packages/{file.name}" for file in sorted((root / "packages").glob("*.deb"))]
        run("chroot", root, "apt-get", "update")  # mmdebstrap leaves no lists behind
        install = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "--no-install-recommends")
        run("chroot", root, *install, *packages)
        yield root
    finally:
        shutil.rmtree(folder)
