"""The file systems in which a process keeps its files."""

import shutil
import threading
from collections.abc import Mapping
from pathlib import Path

from oslo_config import cfg

from minova.metrics import STORAGE_FREE, STORAGE_SIZE
from minova.service import PeriodicTask, start_periodic

# Seconds between two readings.
INTERVAL = 60.0
# Which processes keep files where, by the option's name.
KEPT: Mapping[str, tuple[str, ...]] = {
    "instances_path": ("minova-compute", "minova-standalone"),
    "images_path": ("minova-api", "minova-standalone"),
    "state_path": ("minova-api", "minova-compute", "minova-conductor", "minova-scheduler", "minova-standalone"),
}


def folders(conf: cfg.ConfigOpts, prog: str) -> dict[str, Path]:
    """Returns the folders of this kind of process, by option."""
    paths = {"instances_path": conf.instances_path, "images_path": conf.api.images_path, "state_path": conf.state_path}
    return {name: Path(path) for name, path in paths.items() if prog in KEPT[name]}


def space(folder: Path) -> tuple[int, int]:
    """Returns the bytes of the folder's file system and those that are free. Raises OSError if there is no such folder."""
    usage = shutil.disk_usage(folder)
    return usage.total, usage.free


class StorageWatch:
    """Reads the space in a thread of its own: a network file system may not answer."""

    binary = "storages"

    def __init__(self, conf: cfg.ConfigOpts, prog: str, stopping: threading.Event) -> None:
        self._folders = folders(conf, prog)
        self._stopping = stopping

    def start(self) -> None:
        task = PeriodicTask(name="watch_storages", interval=INTERVAL, work=self.check, at_once=True)
        start_periodic(task, self._stopping)

    def stop(self) -> None:
        """Does nothing: the thread ends with `stopping`."""

    def check(self) -> None:
        for name, folder in self._folders.items():
            try:
                size, free = space(folder)
            except FileNotFoundError:  # made when it is first used
                continue
            STORAGE_SIZE.labels(name, str(folder)).set(size)
            STORAGE_FREE.labels(name, str(folder)).set(free)
