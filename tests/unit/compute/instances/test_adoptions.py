"""What a compute adopts at its start, and at the end of safe mode."""

from itertools import count
from pathlib import Path

import msgspec
import pytest

from minova import errors
from minova.objects.catalogue.image import Image
from minova.objects.hosts.cloud import LOST, CloudState, CounterMark
from minova.objects.servers.build import BuildMessage
from minova.objects.servers.states import PowerState, TaskState, VmState
from tests.fakes.computes import CTX, FLAVOR, HOST, NODE, Compute

STATE = CloudState(uuid="own", history="first", marks=(CounterMark("a", 1, 1.0),))
SAFE = msgspec.structs.replace(STATE, safe_mode=LOST)


@pytest.fixture
def compute() -> Compute:
    compute = Compute(resume_guests_state_on_host_boot=True)
    compute.conductor.cloud = STATE
    return compute.start()


def beat(compute: Compute, state: CloudState) -> None:
    compute.conductor.cloud = state
    compute.manager.heartbeat()


def restart_in_safe_mode(compute: Compute) -> None:
    compute.conductor.cloud = SAFE
    compute.restart()
    compute.run()


def interrupted(compute: Compute, *, running: bool) -> BuildMessage:
    """An attempt of the restored database, with a domain of which this process knows nothing."""
    message = compute.conductor.commit_build("i", HOST, NODE, FLAVOR)
    compute.hypervisor.add_domain("i", NODE, 1024, attempt=message.attempt, running=running)
    return message


@pytest.mark.parametrize("running", [True, False])
def test_an_attempt_that_this_process_has_not_seen_is_settled_in_the_background(
    compute: Compute, running: bool
) -> None:
    beat(compute, SAFE)
    message = interrupted(compute, running=running)
    beat(compute, STATE)
    assert compute.domains() == {"i": PowerState.RUNNING if running else PowerState.SHUTDOWN}
    compute.manager.build_and_run_instance(CTX, message)
    compute.run()
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE
    assert compute.domains() == {"i": PowerState.RUNNING}
    assert compute.hypervisor.calls.count("prepare") == (0 if running else 1)
    assert compute.conductor.open == {}


def test_the_domain_is_read_again_when_its_turn_has_come(compute: Compute) -> None:
    beat(compute, SAFE)
    interrupted(compute, running=False)
    beat(compute, STATE)
    compute.hypervisor.turn("i", PowerState.RUNNING)
    compute.run()
    assert "destroy" not in compute.hypervisor.calls
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE


def test_an_adoption_that_fails_does_not_keep_its_attempt_from_beginning(compute: Compute) -> None:
    beat(compute, SAFE)
    interrupted(compute, running=True)
    beat(compute, STATE)
    away = errors.HypervisorUnavailable("away")
    with compute.hypervisor_fails("domains", error=away, times=1), pytest.raises(errors.HypervisorUnavailable):
        compute.run()
    assert compute.manager.collaborators.builder.attempts.outcome("i", 1) is None
    compute.manager.update_available_resource()
    compute.run()
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE


def test_a_second_safe_mode_leaves_the_attempt_to_its_end(compute: Compute) -> None:
    beat(compute, SAFE)
    interrupted(compute, running=True)
    compute.manager.safe_mode.hold("another part", "it was told so")
    compute.manager.collaborators.adoptions.after_safe_mode(CTX)
    assert compute.queue == []
    compute.manager.safe_mode.release("another part")
    beat(compute, STATE)
    compute.run()
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE


def test_bug_start_undoes_an_accepted_guest_for_a_later_attempt(tmp_path: Path) -> None:
    """The restored database has given up the attempt that made the guest, and begun another one here."""
    compute = Compute(records=tmp_path / "guests").start()
    compute.boot("i")
    compute.conductor.instances.pop("i")
    for _ in range(2):
        compute.conductor.commit_build("i", HOST, NODE, FLAVOR)
    compute.restart()
    compute.run()
    assert "destroy" not in compute.hypervisor.calls
    assert compute.domains() == {"i": PowerState.RUNNING}


# -- guests that were switched off ---------------------------------------------------------------------------------------


def switched_off(compute: Compute, name: str = "i") -> None:
    """As after a power cut: no event says so."""
    node, domain = compute.hypervisor._domains[name]
    compute.hypervisor._domains[name] = (node, msgspec.structs.replace(domain, power_state=PowerState.SHUTDOWN))


def test_bug_guest_that_shuts_itself_down_in_safe_mode_is_started(compute: Compute) -> None:
    compute.boot("i")
    beat(compute, SAFE)
    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    beat(compute, STATE)
    compute.run()
    assert compute.domains() == {"i": PowerState.SHUTDOWN}


def test_a_guest_that_was_switched_off_with_its_host_is_started_after_safe_mode(compute: Compute) -> None:
    compute.boot("i")
    switched_off(compute)
    restart_in_safe_mode(compute)
    assert compute.domains() == {"i": PowerState.SHUTDOWN}
    beat(compute, STATE)
    compute.run()
    assert compute.domains() == {"i": PowerState.RUNNING}
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE


@pytest.mark.parametrize(
    ("task_state", "power_state"), [(None, PowerState.RUNNING), (TaskState.RESIZE_REVERTING, PowerState.SHUTDOWN)]
)
def test_bug_guest_whose_move_waits_for_a_confirmation_stays_off(
    compute: Compute, task_state: TaskState | None, power_state: PowerState
) -> None:
    """After a boot of its host. Its user can only confirm or revert the move, and not start it."""
    compute.boot("i")
    compute.conductor.change("i", vm_state=VmState.RESIZED, task_state=task_state)
    switched_off(compute)
    compute.restart()
    compute.run()
    assert compute.domains() == {"i": power_state}


def booted_long_ago(compute: Compute) -> None:
    """Its guest is off, and its start has waited for others for a minute."""
    compute.boot("i")
    switched_off(compute)
    compute.restart()
    now = compute.ticks()
    compute.ticks = lambda: now + 60.0


def test_bug_guest_that_was_evacuated_while_its_start_waited_was_started(compute: Compute) -> None:
    booted_long_ago(compute)
    compute.conductor.change("i", host="other")
    compute.run()
    assert compute.domains() == {"i": PowerState.SHUTDOWN}


def test_bug_host_that_was_forced_down_while_starts_waited_started_its_guests(compute: Compute) -> None:
    """Each may be evacuated at any moment."""
    booted_long_ago(compute)
    compute.conductor.fenced = True
    compute.run()
    compute.manager.heartbeat()
    compute.manager.report_changes()
    compute.run()
    assert compute.domains() == {"i": PowerState.SHUTDOWN}
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE, "it is not reported as off"
    compute.conductor.fenced = False
    compute.manager.heartbeat()
    compute.run()
    assert compute.domains() == {"i": PowerState.RUNNING}


def test_bug_guest_that_was_evacuated_while_its_base_image_came_was_started(compute: Compute) -> None:
    compute.boot("i")
    compute.conductor.change("i", image=Image(id="own", os_hash_value="d1935e"))
    switched_off(compute)
    compute.hypervisor.lost_bases["i"] = Path("/instances/_base/d1935e")
    compute.restart()
    now = compute.ticks()

    def fetch(check: object) -> None:
        compute.hypervisor.lost_bases.clear()
        compute.conductor.change("i", host="other")
        compute.ticks = lambda: now + 300.0

    compute.images.on_fetch = fetch
    compute.run()
    assert compute.images.fetched == ["own"]
    assert compute.domains() == {"i": PowerState.SHUTDOWN}


def test_bug_guests_stayed_off_after_a_long_outage_of_conductors(compute: Compute) -> None:
    """They were reported as stopped when a conductor was back."""
    booted_long_ago(compute)
    now, minutes = compute.ticks(), count()
    compute.ticks = lambda: now + next(minutes) * 60.0
    with compute.conductor_loses("instances_of_host"):
        compute.run()
    compute.manager.report_changes()
    compute.run()
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE
    compute.manager.heartbeat()
    compute.run()
    assert compute.domains() == {"i": PowerState.RUNNING}


def test_all_starts_of_a_host_ask_a_conductor_together(compute: Compute) -> None:
    """After a power cut of a site, each of many hosts starts many guests."""
    for name in ("i", "j", "k"):
        compute.boot(name)
        switched_off(compute, name)
    compute.restart()
    now = compute.ticks()
    compute.ticks = lambda: now + 60.0
    calls_before = compute.conductor.calls.count("instances_of_host")
    compute.run()
    assert compute.domains() == dict.fromkeys(("i", "j", "k"), PowerState.RUNNING)
    assert compute.conductor.calls.count("instances_of_host") == calls_before + 1


def test_a_guest_that_ran_when_its_process_started_is_not_started_after_safe_mode(compute: Compute) -> None:
    compute.boot("i")
    restart_in_safe_mode(compute)
    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    beat(compute, STATE)
    compute.run()
    assert compute.domains() == {"i": PowerState.SHUTDOWN}


def test_a_guest_that_a_user_stops_just_after_safe_mode_is_not_started(compute: Compute) -> None:
    compute.boot("i")
    switched_off(compute)
    restart_in_safe_mode(compute)
    beat(compute, STATE)
    compute.conductor.change("i", vm_state=VmState.STOPPED)
    compute.run()
    assert compute.domains() == {"i": PowerState.SHUTDOWN}


def test_bug_renamed_host_owns_no_disks_of_a_server_with_a_task_or_without_a_domain(compute: Compute) -> None:
    compute.boot("i")
    compute.boot("j")
    rows = compute.conductor.instances
    rows["i"] = msgspec.structs.replace(rows["i"], task_state=TaskState.SHELVING)
    compute.hypervisor._domains.pop("j")
    compute.restart()
    assert compute.hypervisor.renamed == {"i", "j"}
