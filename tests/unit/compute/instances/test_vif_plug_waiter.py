"""A guest on a network of Neutron waits for its wires, and no longer than it may."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import msgspec
import pytest

from minova import errors
from minova.compute.conductor_retry import ConductorRetry
from minova.compute.instances.vif_plug_waiter import UNCONFIGURED, VifPlugWaiter
from minova.concurrency.outside_waits import silent
from minova.context import service_context
from minova.contracts.conductor import ConductorApi
from minova.objects.catalogue.flavor import Flavor
from minova.objects.network.vif import NEUTRON, Vif
from minova.objects.servers.instance import Instance

FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=512, root_gb=1)
VIF = {"port_id": "p", "mac_address": "fa:16:3e:00:00:01", "network_id": "n", "network_type": NEUTRON}
DOWN, UP = Vif(active=False, **VIF), Vif(active=True, **VIF)  # type: ignore[arg-type]
INSTANCE = Instance(uuid="one", display_name="one", flavor=FLAVOR, host="h", node="n", network_info=(DOWN,))


class Conductor:
    """Answers with each of these in turn, then with the last one; an error is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, int, str]] = []

    def bind_interfaces(self, ctx: Any, instance_uuid: str, attempt: int, host: str) -> tuple[Vif, ...]:
        self.asked.append((instance_uuid, attempt, host))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return (answer,)


def made(conductor: Conductor, **options: Any) -> VifPlugWaiter:
    repeat = ConductorRetry(wait=lambda seconds: False)
    return VifPlugWaiter("h", cast(ConductorApi, conductor), repeat=repeat, poll=0.0, **options)


def ticking() -> Callable[[], float]:
    """A second passes with each look."""
    now = [0.0]

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    return clock


def test_bug_build_that_waits_for_a_hanging_neutron_seems_to_proceed() -> None:
    """The conductor is patient, and answers heartbeats meanwhile. Also a wait for wires ends with the process."""
    asked, answers = threading.Event(), threading.Event()

    class Hanging(Conductor):
        def bind_interfaces(self, ctx: Any, instance_uuid: str, attempt: int, host: str) -> tuple[Vif, ...]:
            asked.set()
            assert answers.wait(60)
            return super().bind_interfaces(ctx, instance_uuid, attempt, host)

    waiter = made(Hanging(UP))
    for work in (waiter.bound, partial(waiter.wait, check=lambda: None)):
        asked.clear()
        answers.clear()
        thread = threading.Thread(target=work, args=(service_context(), INSTANCE, 3), daemon=True)
        thread.start()
        assert asked.wait(60)
        assert silent(thread.ident or 0, 0.0) == "the network service"
        answers.set()
        thread.join(60)


def test_interfaces_are_bound_with_the_attempt() -> None:
    conductor = Conductor(UP)
    bound = made(conductor).bound(service_context(), INSTANCE, 3)
    assert bound.network_info == (UP,)
    assert conductor.asked == [("one", 3, "h")]


def test_minovas_own_networks_ask_no_service() -> None:
    conductor = Conductor(errors.StaleAttempt("not asked"))
    own = Instance(
        uuid="one", display_name="one", flavor=FLAVOR, network_info=(Vif(port_id="p", mac_address="m", network_id="n"),)
    )
    vif_plug_waiter = made(conductor)
    assert vif_plug_waiter.bound(service_context(), own, 1) is own
    assert not vif_plug_waiter.must_wait(own)
    assert conductor.asked == []


def test_interfaces_on_minovas_own_networks_stay_as_they_are() -> None:
    first, last = (Vif(port_id=name, mac_address=name, network_id="own") for name in ("first", "last"))
    mixed = msgspec.structs.replace(INSTANCE, network_info=(first, DOWN, last))
    assert made(Conductor(UP)).bound(service_context(), mixed, 1).network_info == (first, UP, last)


@pytest.mark.parametrize(("vif_type", "asks"), [("ovs", 0), ("binding_failed", 1), ("", 1)])
def test_a_guest_that_is_started_anew_has_lost_bindings_renewed(vif_type: str, asks: int) -> None:
    """A guest cannot be defined with an interface that is bound to no host."""
    conductor = Conductor(UP)
    instance = msgspec.structs.replace(INSTANCE, network_info=(msgspec.structs.replace(UP, vif_type=vif_type),))
    made(conductor).bound_if_lost(service_context(), instance)
    assert len(conductor.asked) == asks


def test_one_of_the_conductors_has_neutron() -> None:
    conductor = Conductor(errors.NetworkNotConfigured("not here"), UP)
    assert made(conductor).bound(service_context(), INSTANCE, 1).network_info == (UP,)


def test_conductors_that_all_have_no_neutron_are_not_waited_for() -> None:
    conductor = Conductor(errors.NetworkNotConfigured("not here"))
    clock = ticking()
    with pytest.raises(errors.NoNetworkService, match="not here"):
        made(conductor, clock=clock).bound(service_context(), INSTANCE, 1)
    assert UNCONFIGURED <= clock() <= UNCONFIGURED + 5


def test_a_conductor_that_may_have_neutron_is_waited_for() -> None:
    """It is away, and comes back late."""
    others = [errors.NetworkNotConfigured("not here"), errors.NoAnswer("the other one is away")] * int(UNCONFIGURED)
    conductor = Conductor(*others, UP)
    assert made(conductor, clock=ticking()).bound(service_context(), INSTANCE, 1).network_info == (UP,)


def test_a_conductor_that_is_away_is_asked_again() -> None:
    conductor = Conductor(errors.ServiceUnavailable("away"), UP)
    assert made(conductor).bound(service_context(), INSTANCE, 1).network_info == (UP,)


def test_a_build_that_is_not_wanted_does_not_wait_for_a_conductor() -> None:
    conductor = Conductor(errors.ServiceUnavailable("away"))
    looks = []

    def check() -> None:
        looks.append(1)
        if len(looks) == 3:
            raise errors.StaleAttempt("deleted")

    with pytest.raises(errors.StaleAttempt):
        made(conductor).bound(service_context(), INSTANCE, 1, check)
    assert len(conductor.asked) == 2


@pytest.mark.parametrize(("timeout", "waits"), [(300.0, True), (0.0, False)])
def test_only_a_guest_with_a_time_out_waits(timeout: float, waits: bool) -> None:
    assert made(Conductor(UP), timeout=timeout).must_wait(INSTANCE) is waits


def test_it_waits_until_all_are_wired() -> None:
    conductor = Conductor(DOWN, DOWN, UP)
    made(conductor).wait(service_context(), INSTANCE, 1, lambda: None)
    assert len(conductor.asked) == 3


def test_a_port_that_is_down_by_its_administrator_is_not_waited_for() -> None:
    off = Vif(active=False, admin_state_up=False, **VIF)  # type: ignore[arg-type]
    made(Conductor(off)).wait(service_context(), INSTANCE, 1, lambda: None)


def test_late_wires_are_fatal_unless_configured() -> None:
    late = made(Conductor(DOWN), timeout=5.0, clock=ticking())
    with pytest.raises(
        errors.VirtualInterfaceCreateException, match="has not wired the ports p of instance one within"
    ):
        late.wait(service_context(), INSTANCE, 1, lambda: None)
    made(Conductor(DOWN), timeout=5.0, is_fatal=False, clock=ticking()).wait(
        service_context(), INSTANCE, 1, lambda: None
    )


def test_an_event_ends_the_pause() -> None:
    """Without it the next question would be an hour away."""
    conductor = Conductor(DOWN, UP)
    vif_plug_waiter = VifPlugWaiter("h", cast(ConductorApi, conductor), poll=3600.0, timeout=7200.0)

    def check() -> None:
        vif_plug_waiter.changed("another")
        vif_plug_waiter.changed("one")

    vif_plug_waiter.wait(service_context(), INSTANCE, 1, check)
    assert len(conductor.asked) == 2


def test_a_build_that_is_not_wanted_waits_no_longer() -> None:
    vif_plug_waiter = VifPlugWaiter("h", cast(ConductorApi, Conductor(DOWN)), poll=3600.0)

    def cancelled() -> None:
        raise errors.StaleAttempt("deleted")

    with pytest.raises(errors.StaleAttempt):
        vif_plug_waiter.wait(service_context(), INSTANCE, 1, cancelled)
