"""Computes with an identity on their disk, over a conductor in this process."""

from pathlib import Path
from typing import Any, cast

from minova.cmd.compute import make_manager as make_compute_manager
from minova.compute.host_identity import LocalIdentity
from minova.compute.images.source import ImageSource
from minova.virt.fake import FakeDriver
from tests.cluster import configure


class Machine:
    """One machine's disk: `boot` starts a compute process on it, under any name of host and node."""

    def __init__(self, folder: Path, conductor: Any) -> None:
        self.folder = folder
        self.conductor = conductor

    def boot(self, host: str, node: str | None = None, **options: Any) -> "IdentifiedCompute":
        new_compute = IdentifiedCompute(self, host, node or host, **options)
        try:
            new_compute.start()
        except BaseException:
            new_compute.die()
            raise
        return new_compute

    @property
    def compute_id(self) -> str:
        return (self.folder / "compute_id").read_text().strip()


class StopAtOnce:
    """Stands in for the event that ends waits: a wait for a living rival ends with its first refusal."""

    def __init__(self) -> None:
        self.asked = False

    def is_set(self) -> bool:
        return self.asked

    def set(self) -> None:
        self.asked = True

    def wait(self, timeout: float | None = None) -> bool:
        return True


class IdentifiedCompute:
    def __init__(self, machine: Machine, host: str, node: str, **options: Any) -> None:
        conf = configure(machine.folder, host=host, fake_nodes=[node], **options)
        self.driver = FakeDriver(conf)
        self.identity = LocalIdentity(machine.folder)
        self.stopping = StopAtOnce()
        self.manager = make_compute_manager(
            conf,
            self.driver,
            machine.conductor,
            host=host,
            images=cast(ImageSource, None),
            spawn=lambda work: work(),
            stopping=cast(Any, self.stopping),
            identity=self.identity,
        )

    def start(self) -> None:
        self.manager.init_host()
        self.manager.pre_start_hook()
        self.manager.post_start_hook()

    def die(self) -> None:
        """As the kernel ends a process: no goodbye, and its locks are free."""
        self.identity.release()
