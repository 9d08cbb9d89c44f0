"""A compute among fakes, whose background work waits until a test lets it run."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from oslo_config import cfg

from minova import conf as configuration
from minova import errors
from minova.cmd.compute import make_manager as make_compute_manager
from minova.compute.actions.action_run import Repeated, repeated
from minova.compute.actions.results import UnreportedResults
from minova.compute.guest_records import GuestRecords
from minova.compute.images.source import CopyWriter
from minova.compute.images.tokens import ImageToken
from minova.compute.manager import ComputeManager
from minova.context import service_context
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from tests.fakes.conductor import FakeConductor, nothing
from tests.fakes.hypervisor import Hypervisor
from tests.waiting import wait_for

CTX = service_context("req-test")
HOST = "host-1"
NODE = "node-1"
FLAVOR = Flavor(flavorid="1", name="m1", vcpus=2, memory_mb=1024, root_gb=10)


class FakeImages:
    """An image that is there, or not."""

    def __init__(self) -> None:
        self.refuse: Exception | None = None
        self.cached = False
        self.path = Path("/nowhere")
        self.fetched: list[str] = []
        self.asked_for: list[str] = []
        self.on_fetch: Callable[[Callable[[], None]], None] = lambda check: None

    def is_cached(self, image: Image) -> bool:
        return self.cached

    def keep(self, image: Image) -> bool:
        return self.cached

    def require_there(self, image: Image, token: ImageToken | None = None) -> None:
        self.asked_for.append(image.id)
        if self.refuse is not None:
            raise self.refuse

    def fetch(self, image: Image, check: Callable[[], None] = lambda: None, token: ImageToken | None = None) -> Path:
        self.fetched.append(image.id)
        self.on_fetch(check)
        if self.refuse is not None:
            raise self.refuse
        return self.path

    def take_copy(self, image: Image, size: int, write: CopyWriter, check: Callable[[], None]) -> Path:
        write(self.path, check)
        return self.path


class FakeUploads:
    """An image service that takes what comes, or not. `uploaded`: by image, the bytes and the token."""

    def __init__(self) -> None:
        self.refuse: Exception | None = None
        self.uploaded: dict[str, tuple[bytes, str | None]] = {}
        self.on_upload: Callable[[Callable[[], None]], None] = lambda check: check()

    def upload(self, image: Image, path: Path, token: ImageToken, check: Callable[[], None]) -> None:
        self.on_upload(check)
        if self.refuse is not None:
            raise self.refuse
        self.uploaded[image.id] = (path.read_bytes(), token.value)


def configured(**options: Any) -> cfg.ConfigOpts:
    """Options as a compute reads them."""
    conf = configuration.load([], "test", files=[])
    for name, value in options.items():
        conf.set_override(name, value)
    return conf


def wait_until(true: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for threads to make it true."""
    wait_for("threads have made it true", true, seconds, pause=0.005)


class NoWait(threading.Event):
    """For managers in one thread: a pause is over at once."""

    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set()


class Compute:
    """`manager` runs on `hypervisor` and asks `conductor`; `run` lets its background work happen. `ticks`: its monotonic clock.

    `fresh_claim` 0: each build asks whether its attempt is still this host's before the domain starts. `results`, `records`: folders
    for results of actions and records of guests; None: they do not outlive the process.
    """

    def __init__(
        self,
        conductor: FakeConductor | None = None,
        hypervisor: Hypervisor | None = None,
        *,
        fresh_claim: float = 0.0,
        results: Path | None = None,
        records: Path | None = None,
        repeated: Repeated = repeated,
        **options: Any,
    ) -> None:
        self.repeated = repeated
        self.results = results
        self.records = records
        self.fresh_claim = fresh_claim
        self.conductor = conductor or FakeConductor()
        self.hypervisor = hypervisor or Hypervisor(NODE)
        self.images = FakeImages()
        self.uploads = FakeUploads()
        self.queue: list[Callable[[], None]] = []
        self.conf = configured(**options)
        self.ticks: Callable[[], float] = time.monotonic
        self.manager = self._manager()

    def _manager(self) -> ComputeManager:
        return make_compute_manager(
            self.conf,
            self.hypervisor,
            self.conductor,  # type: ignore[arg-type]  # the API's part is not there
            host=HOST,
            images=self.images,
            uploads=self.uploads,
            ticks=lambda: self.ticks(),  # noqa: PLW0108  - tests replace it
            spawn=self.queue.append,
            stopping=NoWait(),
            fresh_claim=self.fresh_claim,
            results=UnreportedResults(self.results),
            records=GuestRecords(self.records),
            repeated=self.repeated,
        )

    def start(self) -> "Compute":
        self.manager.init_host()
        self.manager.pre_start_hook()
        self.manager.post_start_hook()
        return self

    def restart(self) -> "Compute":
        """As after `kill -9`: what it had in mind is gone."""
        self.queue.clear()
        self.manager = self._manager()
        return self.start()

    def run(self) -> None:
        """All background work, in its order."""
        while self.queue:
            self.queue.pop(0)()

    def run_through_errors(self) -> None:
        """As the threads of a compute do: what raises ServiceUnavailable ends."""
        while self.queue:
            with suppress(errors.ServiceUnavailable):
                self.queue.pop(0)()

    def boot(self, instance_uuid: str, flavor: Flavor = FLAVOR, node: str = NODE, **wanted: Any) -> None:
        """Commit a build and carry it out."""
        message = self.conductor.commit_build(instance_uuid, HOST, node, flavor, **wanted)
        self.manager.build_and_run_instance(CTX, message)
        self.run()

    def delete(self, instance_uuid: str) -> None:
        self.conductor.begin_delete(instance_uuid)
        self.manager.terminate_instance(CTX, instance_uuid, None)
        self.run()

    def delete_meanwhile(self, instance_uuid: str) -> None:
        """While other work is in progress: the question to the conductor has a thread of its own."""
        self.conductor.begin_delete(instance_uuid)
        begun = len(self.queue)
        self.manager.terminate_instance(CTX, instance_uuid, None)
        for question in [self.queue.pop(begun) for _ in self.queue[begun:]]:
            question()

    @property
    def row(self) -> Any:
        """The node's row in the database."""
        return self.conductor.nodes[HOST, NODE]

    def used(self) -> tuple[int, int, int]:
        """(memory_mb, local_gb, vcpus) of the node's row, less what is reserved for the host."""
        return (
            self.row.memory_mb_used - self.conf.reserved_host_memory_mb,
            self.row.local_gb_used,
            self.row.vcpus_used,
        )

    def domains(self) -> dict[str, int]:
        return {domain.uuid: domain.power_state for domain in self.hypervisor.domains()}

    @contextmanager
    def conductor_loses(self, method: str, *, times: int = 1000, answers: bool = False) -> Iterator[None]:
        """Requests, or their answers, of one method are lost so many times."""
        lost = _failing(method, times, errors.ServiceUnavailable(f"No answer to {method}"))
        hook = "on_answer" if answers else "on_call"
        setattr(self.conductor, hook, lost)
        yield
        setattr(self.conductor, hook, nothing)

    @contextmanager
    def hypervisor_fails(self, *operations: str, error: Exception, times: int = 1000) -> Iterator[None]:
        """Operations fail so many times; without a name, each does."""
        self.hypervisor.on_call = _failing(operations, times, error)
        yield
        self.hypervisor.on_call = nothing


def _failing(names: str | tuple[str, ...], times: int, error: Exception) -> Callable[[str], None]:
    left = times

    def fail(name: str) -> None:
        nonlocal left
        if left and (not names or name == names or name in names):
            left -= 1
            raise error

    return fail
