"""The state folder of minova-standalone, in which one process works."""

import fcntl
import os
from pathlib import Path

from oslo_config import cfg

from minova import errors
from minova.cmd.startup.usual_flavors import MADE
from minova.messaging import broker_connection

_LOCK = "lock"


def lock(folder: Path) -> None:
    """Raises InvalidConfiguration if another process has the lock."""
    # The open file holds the lock until the process ends, even if it crashes.
    handle = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise errors.InvalidConfiguration(f"--state-dir {folder}: another minova-standalone works there") from None


def is_standalone(conf: cfg.ConfigOpts) -> bool:
    """Whether all services of this machine are one process. It is found by its lock. If it is off, its files tell; they stay when separate
    services follow, which need a broker.
    """
    folder = Path(conf.state_path)
    return _is_locked(folder) or ((folder / MADE).exists() and not broker_connection.is_configured(conf))


def _is_locked(folder: Path) -> bool:
    try:
        handle = os.open(folder / _LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
