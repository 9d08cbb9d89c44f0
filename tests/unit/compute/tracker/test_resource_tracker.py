"""Claims and audits of one node."""

import contextlib
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from minova import errors, metrics
from minova.compute.conductor_retry import ConductorRetry
from minova.compute.tracker.claims import Claim, NopClaim
from minova.compute.tracker.nodes import Nodes, settings_from
from minova.compute.tracker.resource_tracker import ResourceTracker, _ClaimRequest
from minova.concurrency.batch_queue import QueuedRequest
from minova.context import RequestContext
from minova.objects.catalogue.flavor import Overhead
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.requests.request_spec import HostLimits
from minova.objects.servers.instance import Instance
from minova.objects.servers.migration import Migration, MigrationType
from minova.objects.servers.states import PowerState, TaskState, VmState
from minova.virt.driver.disks import LeftDisks
from tests.fakes.computes import CTX, FLAVOR, HOST, NODE, Compute
from tests.fakes.conductor import FakeConductor
from tests.fakes.hypervisor import BlindHypervisor, Hypervisor
from tests.waiting import wait_for


def a_tracker(conductor: FakeConductor, hypervisor: Hypervisor) -> ResourceTracker:
    settings = settings_from(Compute().conf, HOST)
    return Nodes(settings, hypervisor, conductor, repeat=ConductorRetry(lambda seconds: False)).tracker(NODE)  # type: ignore[arg-type]


@pytest.fixture
def conductor() -> FakeConductor:
    return FakeConductor()


@pytest.fixture
def tracker(conductor: FakeConductor) -> ResourceTracker:
    tracker = a_tracker(conductor, Hypervisor(NODE))
    tracker.update_available_resource(CTX)
    conductor.calls.clear()
    return tracker


def test_a_claim_writes_host_node_and_usage_in_one_call(tracker: ResourceTracker, conductor: FakeConductor) -> None:
    message = conductor.commit_build("i", HOST, NODE, FLAVOR)
    with tracker.instance_claim(CTX, message.instance, 1, HostLimits()) as claim:
        assert (claim.instance.host, claim.instance.node) == (HOST, NODE)
    assert conductor.calls == ["claim_instance"]
    row = conductor.nodes[HOST, NODE]
    assert (row.memory_mb_used, row.vcpus_used, row.local_gb_used) == (1536, 2, 10)
    assert row.stats["num_task_block_device_mapping"] == "1"


def test_a_claim_that_stands_leaves_nothing_to_write(tracker: ResourceTracker, conductor: FakeConductor) -> None:
    message = conductor.commit_build("i", HOST, NODE, FLAVOR)
    tracker.instance_claim(CTX, message.instance, 1, HostLimits())
    conductor.calls.clear()
    tracker.save(CTX)
    assert conductor.calls == []


def test_an_error_inside_gives_the_claim_back(tracker: ResourceTracker, conductor: FakeConductor) -> None:
    message = conductor.commit_build("i", HOST, NODE, FLAVOR)
    with pytest.raises(RuntimeError), tracker.instance_claim(CTX, message.instance, 1, HostLimits()):
        raise RuntimeError
    assert conductor.calls == ["claim_instance", "save_compute_node"]
    assert conductor.nodes[HOST, NODE].memory_mb_used == 512


def test_what_does_not_fit_is_refused_with_every_reason(tracker: ResourceTracker, conductor: FakeConductor) -> None:
    message = conductor.commit_build("i", HOST, NODE, FLAVOR)
    limits = HostLimits(memory_mb=1024, vcpu=1)
    with pytest.raises(errors.ComputeResourcesUnavailable) as caught:
        tracker.instance_claim(CTX, message.instance, 1, limits)
    assert "Free memory 512.00 MB < requested 1024 MB; Free vcpu 1.00 VCPU < requested 2 VCPU" in str(caught.value)
    assert conductor.calls == []


def test_claims_are_counted_by_their_results_and_reasons(tracker: ResourceTracker, conductor: FakeConductor) -> None:
    def counted() -> dict[tuple[str, str], float]:
        samples = next(iter(metrics.CLAIMS.collect())).samples
        return {
            (sample.labels["result"], sample.labels["reason"]): sample.value
            for sample in samples
            if sample.name.endswith("_total")
        }

    before = counted()
    for uuid, limits in (("refused", HostLimits(memory_mb=1024, vcpu=1)), ("granted", HostLimits())):
        message = conductor.commit_build(uuid, HOST, NODE, FLAVOR)
        with contextlib.suppress(errors.ComputeResourcesUnavailable):
            tracker.instance_claim(CTX, message.instance, 1, limits)
    raised = {key: value - before.get(key, 0) for key, value in counted().items() if value != before.get(key, 0)}
    assert raised == {("refused", "memory"): 1, ("refused", "vcpu"): 1, ("granted", ""): 1}


def test_a_claim_is_logged(
    tracker: ResourceTracker, conductor: FakeConductor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    message = conductor.commit_build("i", HOST, NODE, FLAVOR)
    tracker.instance_claim(CTX, message.instance, 1, HostLimits(disk_gb=50))
    messages = [record.getMessage() for record in caplog.records]
    assert messages[:2] == [
        "Attempting claim: memory 1024 MB, disk 10 GB, vcpus 2 CPU",
        "Total memory: 8704 MB, used: 512.00 MB",
    ]
    assert "memory limit not specified, defaulting to unlimited" in messages
    assert messages[-1].startswith("Claim successful")
    assert {getattr(record, "instance_uuid", None) for record in caplog.records} == {"i"}


def test_it_warns_when_host_and_node_were_set_before(
    tracker: ResourceTracker, conductor: FakeConductor, caplog: pytest.LogCaptureFixture
) -> None:
    message = conductor.commit_build("i", HOST, NODE, FLAVOR)
    claimed = tracker.instance_claim(CTX, message.instance, 1, HostLimits()).instance
    tracker.instance_claim(CTX, claimed, 1, HostLimits())
    assert "already has host host-1 and node node-1" in caplog.text


def test_a_claim_made_again_counts_once(tracker: ResourceTracker, conductor: FakeConductor) -> None:
    message = conductor.commit_build("i", HOST, NODE, FLAVOR)
    exactly = HostLimits(memory_mb=1536, disk_gb=10, vcpu=2)
    for _ in range(2):
        tracker.instance_claim(CTX, message.instance, 1, exactly)
    assert conductor.nodes[HOST, NODE].memory_mb_used == 1536


def test_a_domain_that_counted_as_orphan_counts_once_when_its_instance_is_claimed(conductor: FakeConductor) -> None:
    hypervisor = Hypervisor(NODE)
    hypervisor.add_domain("i", NODE, 1024)
    tracker = a_tracker(conductor, hypervisor)
    tracker.update_available_resource(CTX)
    message = conductor.commit_build("i", HOST, NODE, FLAVOR)
    tracker.instance_claim(CTX, message.instance, 1, HostLimits())
    assert conductor.nodes[HOST, NODE].memory_mb_used == 1536
    tracker.release(CTX, "i")
    assert conductor.nodes[HOST, NODE].memory_mb_used == 512


def test_stale_attempt_leaves_usage_unchanged(tracker: ResourceTracker, conductor: FakeConductor) -> None:
    message = conductor.commit_build("i", HOST, NODE, FLAVOR)
    conductor.give_up("i")
    with pytest.raises(errors.StaleAttempt):
        tracker.instance_claim(CTX, message.instance, 1, HostLimits())
    assert tracker.holds("i") is None
    assert tracker.node == conductor.nodes[HOST, NODE]


def test_claim_with_a_lost_answer_is_repeated(tracker: ResourceTracker, conductor: FakeConductor) -> None:
    message = conductor.commit_build("i", HOST, NODE, FLAVOR)
    answers = iter([errors.ServiceUnavailable("lost")])
    conductor.on_answer = lambda method: raise_next(answers)
    tracker.instance_claim(CTX, message.instance, 1, HostLimits())
    assert conductor.calls == ["claim_instance", "claim_instance"]
    assert conductor.nodes[HOST, NODE].memory_mb_used == 1536


def test_a_claim_that_never_gets_an_answer_is_given_back(tracker: ResourceTracker, conductor: FakeConductor) -> None:
    message = conductor.commit_build("i", HOST, NODE, FLAVOR)
    answers = iter([errors.ServiceUnavailable("lost")] * 1000)
    conductor.on_answer = lambda method: raise_next(answers)
    with pytest.raises(errors.ServiceUnavailable):
        tracker.instance_claim(CTX, message.instance, 1, HostLimits())
    assert conductor.nodes[HOST, NODE].memory_mb_used == 1536, "the conductor did write it"
    conductor.on_answer = lambda method: None
    tracker.save(CTX)
    assert conductor.nodes[HOST, NODE].memory_mb_used == 512


def raise_next(waiting: object) -> None:
    for error in waiting:  # type: ignore[attr-defined]
        raise error


def test_before_the_first_audit_nothing_can_be_claimed(conductor: FakeConductor) -> None:
    message = conductor.commit_build("i", HOST, NODE, FLAVOR)
    with pytest.raises(errors.ComputeResourcesUnavailable, match="node-1 has not been audited yet"):
        a_tracker(conductor, Hypervisor(NODE)).instance_claim(CTX, message.instance, 1, HostLimits())


def test_a_driver_without_resources_claims_nothing_but_host_and_node_are_set(conductor: FakeConductor) -> None:
    message = conductor.commit_build("i", HOST, NODE, FLAVOR)
    claim = a_tracker(conductor, BlindHypervisor(NODE)).instance_claim(CTX, message.instance, 1, HostLimits(vcpu=0))
    assert isinstance(claim, NopClaim)
    assert (claim.instance.host, claim.instance.node) == (HOST, NODE)


def test_the_drivers_overhead_counts(conductor: FakeConductor) -> None:
    hypervisor = Hypervisor(NODE)
    hypervisor.extra = Overhead(memory_mb=100, disk_gb=1, vcpus=1)
    tracker = a_tracker(conductor, hypervisor)
    tracker.update_available_resource(CTX)
    message = conductor.commit_build("i", HOST, NODE, FLAVOR)
    tracker.instance_claim(CTX, message.instance, 1, HostLimits())
    incremental = tracker.node
    tracker.update_available_resource(CTX)
    assert incremental is not None
    assert tracker.node == msgspec.structs.replace(incremental, generation=conductor.nodes[HOST, NODE].generation)
    assert (incremental.memory_mb_used, incremental.local_gb_used, incremental.vcpus_used) == (1636, 11, 3)


@pytest.mark.parametrize("instances", [0, 1, 25])
def test_an_audit_takes_two_calls_whatever_the_number_of_instances(conductor: FakeConductor, instances: int) -> None:
    tracker = a_tracker(conductor, Hypervisor(NODE, vcpus=1000, memory_mb=1_000_000, local_gb=10_000))
    tracker.update_available_resource(CTX)
    for number in range(instances):
        message = conductor.commit_build(f"i{number}", HOST, NODE, FLAVOR)
        tracker.instance_claim(CTX, message.instance, 1, HostLimits())
    conductor.calls.clear()
    tracker.update_available_resource(CTX)
    assert conductor.calls == ["begin_audit", "finish_audit"]
    assert conductor.nodes[HOST, NODE].running_vms == instances


def test_no_claim_gets_in_between_at_any_step_of_an_audit() -> None:
    """At each step a claim is tried in another thread: it must wait, and succeed as soon as the audit is over."""
    watch = Watch()
    conductor = watch.conductor
    hypervisor = WatchedHypervisor(watch, NODE)
    tracker = a_tracker(conductor, hypervisor)
    tracker.update_available_resource(CTX)
    for number in range(3):
        message = conductor.commit_build(f"old{number}", HOST, NODE, FLAVOR)
        tracker.instance_claim(CTX, message.instance, 1, HostLimits())
    watch.begin(tracker)
    tracker.update_available_resource(CTX)
    watch.end()
    steps = {"begin_audit", "begin_audit answered", "overhead", "finish_audit", "finish_audit answered"}
    assert set(watch.tried) == steps
    assert not any(watch.got_in.values()), watch.got_in
    assert conductor.nodes[HOST, NODE].running_vms == 3 + len(watch.tried)
    assert watch.order == [
        "begin_audit",
        "finish_audit",
        "claim_instance",
        "claim_instances",
    ], "every claim came after the audit, and those that waited behind the first came together"


def together(tracker: ResourceTracker, conductor: FakeConductor, *uuids: str) -> dict[str, Claim | Exception]:
    """What came of claims that waited behind the claim of instance `first`."""
    messages = {uuid: conductor.commit_build(uuid, HOST, NODE, FLAVOR) for uuid in ("first", *uuids)}
    outcomes: dict[str, Claim | Exception] = {}

    def claim(uuid: str) -> None:
        try:
            outcomes[uuid] = tracker.instance_claim(CTX, messages[uuid].instance, 1, HostLimits())
        except errors.MinovaError as error:
            outcomes[uuid] = error

    threads = [threading.Thread(target=claim, args=(uuid,)) for uuid in uuids]

    def waits(number: int) -> bool:
        return len(tracker._claims._waiting) == number

    def while_the_first_is_written(method: str) -> None:
        if method == "claim_instance" and not threads[0].ident:
            for number, thread in enumerate(threads, start=1):
                thread.start()
                wait_for("the claim to wait", partial(waits, number))

    conductor.on_call = while_the_first_is_written
    claim("first")
    for thread in threads:
        thread.join(60)
    conductor.on_call = lambda method: None
    return outcomes


def test_claims_that_wait_go_in_one_message(tracker: ResourceTracker, conductor: FakeConductor) -> None:
    outcomes = together(tracker, conductor, "i1", "i2", "i3")
    assert conductor.calls == ["claim_instance", "claim_instances"]
    assert all(isinstance(outcome, Claim) for outcome in outcomes.values())
    assert conductor.nodes[HOST, NODE].running_vms == 4
    conductor.calls.clear()
    tracker.save(CTX)
    assert conductor.calls == [], "nothing is left to write"


def test_what_a_deleted_instance_holds_is_forgotten_and_what_another_holds_stays(
    tracker: ResourceTracker, conductor: FakeConductor
) -> None:
    larger = msgspec.structs.replace(FLAVOR, memory_mb=2048)
    for uuid, flavor in (("i", FLAVOR), ("j", larger)):
        message = conductor.commit_build(uuid, HOST, NODE, flavor)
        claimed = tracker.instance_claim(CTX, message.instance, 1, HostLimits()).instance
        migration = Migration(
            uuid=f"move of {uuid}",
            instance_uuid=uuid,
            migration_type=MigrationType.RESIZE,
            status="finished",
            source_compute=HOST,
            source_node=NODE,
            dest_compute="other",
            dest_node="other",
            old_flavor=flavor,
            new_flavor=flavor,
        )
        moved = msgspec.structs.replace(claimed, host="other", node="other", vm_state=VmState.RESIZED, task_state=None)
        tracker.note_move(CTX, moved, migration)

    def used() -> int:
        assert tracker.node is not None
        return tracker.node.memory_mb_used

    before = used()
    tracker.forget(CTX, "i")
    assert used() == before - FLAVOR.memory_mb == 512 + larger.memory_mb


def test_a_stale_claim_among_others_gives_back_what_it_took(tracker: ResourceTracker, conductor: FakeConductor) -> None:
    conductor.on_answer = lambda method: conductor.give_up("i2") if method == "claim_instance" else None
    outcomes = together(tracker, conductor, "i1", "i2", "i3")
    assert isinstance(outcomes["i2"], errors.StaleAttempt)
    assert conductor.calls == ["claim_instance", "claim_instances"], "what is refused is not asked again"
    assert all(isinstance(outcomes[uuid], Claim) for uuid in ("first", "i1", "i3"))
    assert tracker.holds("i2") is None
    tracker.save(CTX)
    assert conductor.nodes[HOST, NODE].running_vms == 3


def test_a_claim_that_does_not_fit_is_refused_alone(conductor: FakeConductor) -> None:
    tracker = a_tracker(conductor, Hypervisor(NODE))
    tracker.update_available_resource(CTX)
    conductor.calls.clear()
    big = msgspec.structs.replace(FLAVOR, memory_mb=10**9)
    limits = HostLimits(memory_mb=10**6)
    messages = [conductor.commit_build(f"i{n}", HOST, NODE, FLAVOR if n else big) for n in range(3)]
    queued_claims = [
        QueuedRequest[_ClaimRequest, Instance](
            _ClaimRequest(ctx=CTX, instance=message.instance, attempt=1, limits=limits)
        )
        for message in messages
    ]
    tracker._serve_claims(queued_claims)
    refused, *stand = [entry.outcome() for entry in queued_claims]
    assert isinstance(refused, errors.ComputeResourcesUnavailable)
    assert [isinstance(outcome, Instance) for outcome in stand] == [True, True]


def test_an_older_conductor_gets_claims_one_by_one(tracker: ResourceTracker, conductor: FakeConductor) -> None:
    def too_old(*_: object, **__: object) -> None:
        raise errors.PeerTooOld("claim_instances needs conductor 1.6")

    conductor.claim_instances = too_old  # type: ignore[method-assign,assignment]
    outcomes = together(tracker, conductor, "i1", "i2")
    assert all(isinstance(outcome, Claim) for outcome in outcomes.values())
    assert conductor.calls == ["claim_instance"] * 3


class Watch:
    """Tries a claim in a thread at each step it is told of, and sees whether it gets in."""

    def __init__(self) -> None:
        self.conductor = FakeConductor()
        self.conductor.on_call = self._called
        self.conductor.on_answer = lambda method: self.step(f"{method} answered")
        self.tried: list[str] = []
        self.got_in: dict[str, bool] = {}
        self.order: list[str] = []
        self._tracker: ResourceTracker | None = None
        self._auditing = threading.get_ident()
        self._threads: list[threading.Thread] = []

    def begin(self, tracker: ResourceTracker) -> None:
        self._tracker = tracker
        self.order.clear()

    def end(self) -> None:
        self._tracker = None
        for thread in self._threads:
            thread.join(timeout=60)
            assert not thread.is_alive()

    def _called(self, method: str) -> None:
        self.order.append(method)
        self.step(method)

    def step(self, name: str) -> None:
        tracker = self._tracker
        if tracker is None or threading.get_ident() != self._auditing or name in self.tried:
            return
        self.tried.append(name)
        message = self.conductor.commit_build(f"during {name}", HOST, NODE, FLAVOR)
        claimed = threading.Event()

        def claim() -> None:
            tracker.instance_claim(CTX, message.instance, 1, HostLimits())
            claimed.set()

        thread = threading.Thread(target=claim)
        self._threads.append(thread)
        thread.start()
        self.got_in[name] = claimed.wait(0.1)


class WatchedHypervisor(Hypervisor):
    def __init__(self, watch: Watch, *nodes: str) -> None:
        super().__init__(*nodes, vcpus=1000, memory_mb=1_000_000, local_gb=10_000)
        self._watch = watch

    def overhead(self, flavor: object) -> Overhead:
        self._watch.step("overhead")
        return Overhead()


def test_a_node_without_a_row_is_made_again_with_the_same_uuid(
    tracker: ResourceTracker, conductor: FakeConductor
) -> None:
    before = conductor.nodes.pop((HOST, NODE))
    tracker.update_available_resource(CTX)
    assert conductor.nodes[HOST, NODE].uuid == before.uuid


def test_a_row_that_is_gone_is_not_asked_for_until_an_audit_has_made_it_again(
    tracker: ResourceTracker, conductor: FakeConductor
) -> None:
    message = conductor.commit_build("i", HOST, NODE, FLAVOR)
    tracker.instance_claim(CTX, message.instance, 1, HostLimits())
    conductor.nodes.clear()
    conductor.calls.clear()
    tracker.release(CTX, "i")
    tracker.save(CTX)
    assert conductor.calls == ["save_compute_node"]
    conductor.give_up("i")
    tracker.update_available_resource(CTX)
    assert conductor.nodes[HOST, NODE].memory_mb_used == 512


def test_the_uuid_of_the_row_stays(conductor: FakeConductor, tracker: ResourceTracker) -> None:
    row = conductor.nodes[HOST, NODE]
    conductor.nodes[HOST, NODE] = type(row)(uuid="another", host=HOST, hypervisor_hostname=NODE, id=1)
    tracker.update_available_resource(CTX)
    assert conductor.nodes[HOST, NODE].uuid == "another"


def test_an_audit_says_what_it_does(
    tracker: ResourceTracker, conductor: FakeConductor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="minova.compute")
    tracker.update_available_resource(CTX)
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0] == "Auditing locally available compute resources for node node-1"
    assert messages[1].startswith("Hypervisor resource view: name=node-1 free_ram=8704MB")
    assert messages[2].startswith("Final resource view: name=node-1 phys_ram=8704MB used_ram=512MB")
    assert len(messages) == 3


def test_a_state_that_changed_is_written_by_the_next_save_and_only_then(
    tracker: ResourceTracker, conductor: FakeConductor
) -> None:
    message = conductor.commit_build("i", HOST, NODE, FLAVOR)
    claimed = tracker.instance_claim(CTX, message.instance, 1, HostLimits()).instance
    tracker.note(msgspec.structs.replace(claimed, vm_state=VmState.ACTIVE, task_state=None))
    conductor.calls.clear()
    tracker.save(CTX)
    tracker.save(CTX)
    assert conductor.calls == ["save_compute_node"]
    assert conductor.nodes[HOST, NODE].stats["num_vm_active"] == "1"
    assert conductor.nodes[HOST, NODE].current_workload == 0


def test_usage_is_right_and_written_later_if_the_audits_last_write_fails(
    tracker: ResourceTracker, conductor: FakeConductor
) -> None:
    message = conductor.commit_build("i", HOST, NODE, FLAVOR)
    tracker.instance_claim(CTX, message.instance, 1, HostLimits())
    conductor.begin_delete("i")
    conductor.instance_deleted(CTX, instance_uuid="i", host=HOST)
    conductor.on_call = fail_on("finish_audit")
    with pytest.raises(errors.ServiceUnavailable):
        tracker.update_available_resource(CTX)
    assert tracker.node is not None
    assert tracker.node.memory_mb_used == 512
    tracker.save(CTX)
    assert conductor.nodes[HOST, NODE].memory_mb_used == 512


def fail_on(name: str) -> Callable[[str], None]:
    def fail(method: str) -> None:
        if method == name:
            raise errors.ServiceUnavailable(name)

    return fail


def test_a_task_state_of_the_row_is_counted_by_the_audit(tracker: ResourceTracker, conductor: FakeConductor) -> None:
    message = conductor.commit_build("i", HOST, NODE, FLAVOR)
    tracker.instance_claim(CTX, message.instance, 1, HostLimits())
    conductor.begin_attempt(CTX, instance_uuid="i", attempt=1, host=HOST, step=TaskState.SPAWNING)
    tracker.update_available_resource(CTX)
    row = conductor.nodes[HOST, NODE]
    assert row.stats["num_task_spawning"] == "1"
    assert (row.current_workload, row.stats["io_workload"]) == (1, "1")


@pytest.mark.parametrize(("host_nodes", "disk_gb"), [((), 5), ((NODE,), 5), ((NODE, "node-2"), 0)])
def test_disks_without_a_domain_count_on_the_only_node_of_a_host(
    conductor: FakeConductor, host_nodes: tuple[str, ...], disk_gb: int
) -> None:
    hypervisor = Hypervisor(NODE)
    hypervisor.disks_left = [LeftDisks(uuid="left", attempt=1, disk_gb=5)]
    a_tracker(conductor, hypervisor).update_available_resource(CTX, host_nodes)
    assert conductor.nodes[HOST, NODE].local_gb_used == disk_gb


RUNNING = {"i": PowerState.RUNNING}


@pytest.fixture
def built(tracker: ResourceTracker, conductor: FakeConductor) -> Instance:
    """An instance whose build ends, with a claim that the conductor has written."""
    message = conductor.commit_build("i", HOST, NODE, FLAVOR)
    claimed = tracker.instance_claim(CTX, message.instance, 1, HostLimits()).instance
    conductor.calls.clear()
    return claimed


def test_a_node_that_was_written_with_reports_is_not_written_again(
    tracker: ResourceTracker, conductor: FakeConductor, built: Instance
) -> None:
    write = tracker.node_write(RUNNING)
    tracker.succeeded(RUNNING, write, written=True)
    tracker.save(CTX)
    assert conductor.calls == []
    held = tracker.holds("i")
    assert held is not None
    assert (held.vm_state, held.task_state, held.power_state) == (VmState.ACTIVE, None, PowerState.RUNNING)
    assert write is not None
    assert (write.sent.stats["num_vm_active"], write.sent.stats["failed_builds"]) == ("1", "0")


def test_a_node_that_may_not_have_been_written_with_reports_is_written_later(
    tracker: ResourceTracker, conductor: FakeConductor, built: Instance
) -> None:
    tracker.succeeded(RUNNING, tracker.node_write(RUNNING), written=False)
    tracker.save(CTX)
    assert conductor.nodes[HOST, NODE].stats["num_vm_active"] == "1"


def test_a_change_while_reports_are_on_their_way_is_written_later(
    tracker: ResourceTracker, conductor: FakeConductor, built: Instance
) -> None:
    write = tracker.node_write(RUNNING)
    tracker.count_failed_build()
    tracker.note(msgspec.structs.replace(built, task_state=TaskState.SPAWNING))
    tracker.succeeded({}, write, written=True)
    tracker.save(CTX)
    stats = conductor.nodes[HOST, NODE].stats
    assert (stats["failed_builds"], stats["num_task_spawning"]) == ("1", "1")


def test_a_save_that_overtakes_reports_is_not_taken_for_their_write(
    tracker: ResourceTracker, conductor: FakeConductor, built: Instance
) -> None:
    write = tracker.node_write(RUNNING)
    tracker.count_failed_build()
    tracker.save(CTX)
    conductor.calls.clear()
    tracker.succeeded(RUNNING, write, written=True)
    tracker.save(CTX)
    assert conductor.calls == ["save_compute_node"]
    assert conductor.nodes[HOST, NODE].stats["num_vm_active"] == "1"


def test_a_write_with_reports_after_one_that_may_be_lost_is_not_relied_on(
    tracker: ResourceTracker, conductor: FakeConductor, built: Instance
) -> None:
    tracker.succeeded({}, tracker.node_write({}), written=False)
    tracker.succeeded({}, tracker.node_write({}), written=True)
    tracker.save(CTX)
    assert conductor.calls == ["save_compute_node"]


def test_bug_a_change_while_reports_are_on_their_way_counted_as_an_edited_row(
    tracker: ResourceTracker, conductor: FakeConductor, built: Instance
) -> None:
    message = conductor.commit_build("j", HOST, NODE, FLAVOR)
    tracker.instance_claim(CTX, message.instance, 1, HostLimits())
    tracker.note(conductor.change("j", vm_state=VmState.ACTIVE, task_state=None))
    tracker.save(CTX)
    write = tracker.node_write(RUNNING)
    assert write is not None
    conductor.save_compute_node(CTX, node=write.sent)
    conductor.change("i", vm_state=VmState.ACTIVE, task_state=None)
    tracker.note(conductor.change("j", task_state=TaskState.REBOOTING))
    tracker.succeeded(RUNNING, write, written=True)
    assert tracker.update_available_resource(CTX).finding.drift == ()


def test_a_success_ends_a_row_of_failed_builds(
    tracker: ResourceTracker, conductor: FakeConductor, built: Instance
) -> None:
    for failed in ("1", "2"):
        tracker.count_failed_build()
        tracker.update_available_resource(CTX)
        assert conductor.nodes[HOST, NODE].stats["failed_builds"] == failed
    tracker.succeeded({}, None, written=True)
    tracker.count_failed_build()
    tracker.save(CTX)
    assert conductor.nodes[HOST, NODE].stats["failed_builds"] == "3", "a report without instances is no success"
    tracker.succeeded(RUNNING, None, written=True)
    tracker.count_failed_build()
    tracker.save(CTX)
    assert conductor.nodes[HOST, NODE].stats["failed_builds"] == "1"


def test_a_guest_that_was_built_to_be_off_is_stopped(
    tracker: ResourceTracker, conductor: FakeConductor, built: Instance
) -> None:
    tracker.succeeded({"i": PowerState.SHUTDOWN, "not here": PowerState.RUNNING}, None, written=True)
    held = tracker.holds("i")
    assert held is not None
    assert (held.vm_state, held.power_state) == (VmState.STOPPED, PowerState.SHUTDOWN)
    assert tracker.holds("not here") is None


def test_before_the_first_audit_there_is_nothing_to_write(conductor: FakeConductor) -> None:
    tracker = a_tracker(conductor, Hypervisor(NODE))
    assert (tracker.node, tracker.holds("i"), tracker.node_write(RUNNING)) == (None, None, None)
    tracker.count_failed_build()
    tracker.succeeded(RUNNING, None, written=True)
    tracker.release(CTX, "i")
    tracker.forget(CTX, "i")
    tracker.save(CTX)
    assert conductor.calls == []


def test_failed_builds_before_the_first_audit_count(conductor: FakeConductor) -> None:
    tracker = a_tracker(conductor, Hypervisor(NODE))
    tracker.count_failed_build()
    tracker.update_available_resource(CTX)
    assert conductor.nodes[HOST, NODE].stats["failed_builds"] == "1"


def test_a_row_that_is_gone_is_not_sent_with_reports(
    tracker: ResourceTracker, conductor: FakeConductor, built: Instance
) -> None:
    conductor.nodes.clear()
    tracker.release(CTX, "i")
    assert tracker.node_write({}) is None
    conductor.calls.clear()
    tracker.release(CTX, "i")
    tracker.save(CTX)
    assert conductor.calls == []


def test_each_write_that_was_answered_is_acknowledged_by_the_next(conductor: FakeConductor) -> None:
    settings = settings_from(Compute().conf, HOST)
    nodes = Nodes(settings, Hypervisor(NODE), conductor)  # type: ignore[arg-type]
    nodes.registered(None, 7)
    tracker = nodes.tracker(NODE)

    def last_number() -> int:
        """That of a write that is not answered; it acknowledges the one before the last."""
        write = tracker.node_write({})
        assert write is not None
        assert write.sent.acknowledged == write.sent.write_number - 1
        tracker.succeeded({}, write, written=True)
        return write.sent.write_number

    tracker.update_available_resource(CTX)
    assert last_number() == 2
    assert last_number() == 3
    message = conductor.commit_build("i", HOST, NODE, FLAVOR)
    claimed = tracker.instance_claim(CTX, message.instance, 1, HostLimits()).instance
    assert last_number() == 5
    tracker.note(msgspec.structs.replace(claimed, vm_state=VmState.ACTIVE, task_state=None))
    tracker.save(CTX)
    assert last_number() == 7


def test_an_audit_warns_of_a_new_orphan(conductor: FakeConductor, caplog: pytest.LogCaptureFixture) -> None:
    hypervisor = Hypervisor(NODE)
    tracker = a_tracker(conductor, hypervisor)
    tracker.update_available_resource(CTX)
    hypervisor.add_domain("orphan", NODE, 64)
    tracker.update_available_resource(CTX)
    tracker.update_available_resource(CTX)
    assert caplog.text.count("Domain orphan on node node-1 holds 64 MB") == 1


@pytest.mark.parametrize(
    ("changes", "warns"),
    [
        ({}, False),
        ({"host": "elsewhere"}, True),
        ({"node": "elsewhere"}, True),
        ({"host": "elsewhere", "vm_state": VmState.ACTIVE}, True),
        ({"host": "elsewhere", "vm_state": VmState.ACTIVE, "task_state": TaskState.REBUILDING}, False),
    ],
)
def test_a_claim_of_an_instance_that_has_a_place_warns_unless_it_is_evacuated(
    tracker: ResourceTracker,
    conductor: FakeConductor,
    caplog: pytest.LogCaptureFixture,
    changes: dict[str, Any],
    warns: bool,
) -> None:
    instance = conductor.commit_build("i", HOST, NODE, FLAVOR).instance
    tracker.instance_claim(CTX, msgspec.structs.replace(instance, **changes), 1, HostLimits())
    assert ("Instance i already has host" in caplog.text) == warns


class OlderConductor(FakeConductor):
    """Does not know the step of a claim, or no claim at all. `steps`: of the claims."""

    def __init__(self, *, claims: bool) -> None:
        super().__init__()
        self.steps_of_claims: list[str | None] = []
        self._claims = claims

    def claim_instance(self, ctx: RequestContext, *, step: str | None = None, **claim: Any) -> Instance:
        self.steps_of_claims.append(step)
        if step is not None or not self._claims:
            raise errors.PeerTooOld("claim_instance(step) needs conductor 1.5")
        return super().claim_instance(ctx, **claim)


@pytest.mark.parametrize(
    ("step", "steps"),
    [(TaskState.SPAWNING, [TaskState.SPAWNING.value, None]), (TaskState.BLOCK_DEVICE_MAPPING, [None])],
)
@pytest.mark.parametrize("claims", [True, False])
def test_an_older_conductor_gets_a_claim_without_its_step(
    step: TaskState, steps: list[str | None], claims: bool
) -> None:
    conductor = OlderConductor(claims=claims)
    tracker = a_tracker(conductor, Hypervisor(NODE))
    tracker.update_available_resource(CTX)
    message = conductor.commit_build("i", HOST, NODE, FLAVOR)
    with contextlib.nullcontext() if claims else pytest.raises(errors.PeerTooOld):
        tracker.instance_claim(CTX, message.instance, 1, HostLimits(), step)
    assert conductor.steps_of_claims == steps
    assert (tracker.holds("i") is not None) == claims


class MovesConductor(FakeConductor):
    def claim_move(self, ctx: RequestContext, *, migration: Migration, node: ComputeNode) -> Migration:
        self.save_compute_node(ctx, node=node)
        return migration


def test_a_move_holds_its_new_size_until_its_work_fails() -> None:
    conductor = MovesConductor()
    tracker = a_tracker(conductor, Hypervisor(NODE))
    tracker.update_available_resource(CTX)
    larger = msgspec.structs.replace(FLAVOR, memory_mb=2048)
    migration = Migration(
        uuid="m",
        instance_uuid="i",
        migration_type=MigrationType.RESIZE,
        source_compute="other",
        source_node="other",
        old_flavor=FLAVOR,
        new_flavor=larger,
    )
    instance = Instance(
        uuid="i", display_name="vm", flavor=FLAVOR, host="other", node="other", task_state=TaskState.RESIZE_PREP
    )
    claim = tracker.move_claim(CTX, instance, migration, HostLimits())
    assert (claim.migration.status, claim.migration.dest) == ("pre-migrating", (HOST, NODE))
    assert conductor.nodes[HOST, NODE].memory_mb_used == 512 + 2048
    with pytest.raises(RuntimeError), claim:
        raise RuntimeError
    assert conductor.nodes[HOST, NODE].memory_mb_used == 512
    with pytest.raises(errors.ComputeResourcesUnavailable):
        tracker.move_claim(CTX, instance, migration, HostLimits(memory_mb=2559))
