"""How long this host has been up."""

import os
import subprocess

from minova.errors import HypervisorError

# Seconds that the program may take.
WITHIN = 10.0


def uptime() -> str:
    """Returns the output of `uptime`, as Nova's libvirt driver does. Raises HypervisorError if it fails."""
    try:
        ran = subprocess.run(
            ["uptime"], env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True, timeout=WITHIN, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise HypervisorError(f"uptime failed: {error}") from error
    return ran.stdout
