"""Programs that users of OpenStack have, each in a virtual environment of its own, from its lock file in requirements/clients."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import openstack

from tests.servers.keystone import PASSWORD, REGION

PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIM1inIWVbMJ8nvUzZ7pB5dCkkbTLtcGn9vPVjR2wNc6k of-a-client"
ROOT = Path(__file__).parents[2]


def installed(client: str) -> Path:
    """Returns the folder of the client's executables. Installs the client if its lock file is new."""
    lock, folder = ROOT / "requirements" / "clients" / f"{client}.lock", ROOT / ".tox" / f"{client}-packages"
    stamp = folder / lock.name
    if not stamp.exists() or stamp.read_bytes() != lock.read_bytes():
        print(f"Installing {client} in {folder}", flush=True)
        tool = [sys.executable, str(ROOT / "tools" / "lock"), "--install", str(folder), f"clients/{lock.name}"]
        subprocess.run(tool, check=True)
        stamp.write_bytes(lock.read_bytes())
    return folder / "bin"


def connect(keystone: str) -> Any:
    """Returns the SDK's connection of the administrator. It knows the catalog of now."""
    return openstack.connect(
        auth_url=keystone,
        username="admin",
        password=PASSWORD,
        project_name="admin",
        user_domain_name="Default",
        project_domain_name="Default",
        region_name=REGION,
    )
