"""The offload of a shelved server keeps the state of its TPM with a conductor before it removes the guest."""

from minova import errors
from minova.objects.actions.shelving import SHELVE_OFFLOAD
from minova.objects.catalogue.image import Image
from minova.objects.guests.guest_secrets import SecretKind, TpmState
from minova.objects.servers.states import PowerState, VmState
from tests.fakes.computes import Compute
from tests.unit.compute.actions.test_runner import ask, state

STATE = TpmState(version="2.0", state="c3RhdGU=")
TPM = Image(id="own", properties={"hw_tpm_version": "2.0"})


def test_a_guest_stays_until_the_state_of_its_tpm_is_kept() -> None:
    compute = Compute().start()
    compute.boot("i", image=TPM)
    compute.conductor.change("i", vm_state=VmState.SHELVED)
    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    compute.hypervisor.tpm_states["i"] = STATE
    compute.hypervisor.destroyed.clear()
    usual = compute.conductor.on_call

    def refuse(method: str) -> None:
        if method == "keep_tpm_state":
            raise errors.Conflict("no key")

    compute.conductor.on_call = refuse
    ask(compute, SHELVE_OFFLOAD, 1)
    assert compute.hypervisor.destroyed == []
    assert state(compute)[:2] == (VmState.SHELVED, None)
    assert compute.conductor.untouched == [True]

    compute.conductor.on_call = usual
    ask(compute, SHELVE_OFFLOAD, 2)
    assert compute.conductor.tpm_states == {"i": STATE}
    assert compute.domains() == {}
    # The driver of the next host gets it with the secrets.
    assert compute.hypervisor.secrets is not None
    assert compute.hypervisor.secrets.secrets_of("i", [SecretKind.TPM]).tpm_state == STATE


def shelved(image: Image) -> Compute:
    compute = Compute().start()
    compute.boot("i", image=image)
    compute.conductor.change("i", vm_state=VmState.SHELVED)
    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    compute.conductor.tpm_states["i"] = STATE
    return compute


def test_a_tpm_without_a_state_leaves_no_earlier_one() -> None:
    """The guest was rebuilt since, for example, and not started."""
    compute = shelved(TPM)
    ask(compute, SHELVE_OFFLOAD, 1)
    assert compute.conductor.tpm_states == {}


def test_an_offload_that_is_repeated_keeps_the_state_of_the_first() -> None:
    compute = shelved(TPM)
    compute.hypervisor.destroy("i")
    ask(compute, SHELVE_OFFLOAD, 1)
    assert compute.conductor.tpm_states == {"i": STATE}


def test_a_guest_without_a_tpm_asks_no_conductor() -> None:
    """One of the last release does not know the question."""
    compute = shelved(Image(id="own"))
    calls: list[str] = []
    compute.conductor.on_call = calls.append
    ask(compute, SHELVE_OFFLOAD, 1)
    assert compute.domains() == {}
    assert "keep_tpm_state" not in calls
