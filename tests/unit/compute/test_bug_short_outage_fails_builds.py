"""Three tries without a pause: a conductor without its database for a second failed builds of healthy hosts."""

import pytest

from minova import errors
from minova.compute.conductor_retry import PATIENCE, ConductorRetry
from minova.objects.servers.states import VmState
from minova.retry import BACKOFF, retry_call
from tests.fakes.computes import Compute

# So many refusals come within a few milliseconds of an outage where there is no pause.
MANY = 30


@pytest.fixture
def compute() -> Compute:
    return Compute().start()


@pytest.mark.parametrize("method", ["claim_instance", "begin_attempt", "build_succeeded"])
@pytest.mark.parametrize("answers", [False, True], ids=["requests", "answers"])
def test_an_outage_fails_no_build(compute: Compute, method: str, answers: bool) -> None:
    with compute.conductor_loses(method, times=MANY, answers=answers):
        compute.boot("i")
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE
    assert compute.conductor.failures == []


def test_a_build_that_fails_for_want_of_a_conductor_is_no_fault_of_the_host(compute: Compute) -> None:
    """The weigher of failed builds would turn others away from a healthy host."""
    with compute.conductor_loses("claim_instance"):
        compute.boot("i")
    assert len(compute.conductor.failures) == 1
    compute.manager.update_available_resource()
    assert compute.row.stats.get("failed_builds", "0") == "0"
    with compute.hypervisor_fails("power_on", error=errors.HypervisorUnavailable("gone"), times=1):
        compute.boot("j")
    compute.manager.update_available_resource()
    assert compute.row.stats.get("failed_builds", "0") == "1"


def test_pauses_grow_up_to_the_longest_and_end_with_the_patience() -> None:
    pauses: list[float] = []

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        return False

    with pytest.raises(errors.ServiceUnavailable, match="away"):
        ConductorRetry(wait, seconds=10.0)("it", away)
    assert pauses[:5] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0])
    assert max(pauses) == BACKOFF.longest
    assert 10.0 <= sum(pauses) <= 11.0 < PATIENCE


def test_a_compute_that_stops_does_not_wait() -> None:
    with pytest.raises(errors.ServiceUnavailable, match="away"):
        retry_call("it", away, seconds=600.0, wait=lambda seconds: True)


def away() -> None:
    raise errors.ServiceUnavailable("away")
