"""Audits, services, and the catalogue."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from sqlalchemy import insert, select

from minova import errors
from minova.db import models
from minova.db.hosts import node_audits
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.hosts.node_audit import NodeAudit
from minova.objects.hosts.service import Service
from minova.objects.network.physical_networks import trait_of
from minova.objects.servers.chosen_hardware import MACHINE_TYPE, ChosenHardware
from tests.functional.conductor.conductor_harness import CTX, FLAVOR, ConductorHarness
from tests.functional.conductor.quota_cases import at_once
from tests.functional.scheduler.cloud import named

REQUEST = named("a client's own")


class AuditCases:
    def test_a_node_is_made_once_and_written_when_it_changes(self, harness: ConductorHarness) -> None:
        first = harness.row("a")
        harness.audit("a")
        assert harness.row("a").generation == first.generation
        harness.audit("a", memory_mb=8192)
        assert (harness.row("a").generation, harness.row("a").memory_mb) == (first.generation + 1, 8192)

    def test_every_change_is_announced_and_nothing_else(self, harness: ConductorHarness) -> None:
        before = harness.count(models.HostChange)
        harness.audit("a")
        assert harness.count(models.HostChange) == before
        harness.audit("a", cpu_info="new")
        assert harness.count(models.HostChange) > before

    def test_hosts_that_say_at_once_that_they_have_a_bridge_all_get_its_trait(self, harness: ConductorHarness) -> None:
        def bridges_of(host: str) -> tuple[dict[str, str], set[str]]:
            query = select(models.ProviderTrait.trait).join(
                models.ResourceProvider, models.ResourceProvider.id == models.ProviderTrait.provider_id
            )
            with harness.db.read() as session:
                row = harness.row(host)
                traits = set(session.scalars(query.where(models.ResourceProvider.uuid == row.uuid)))
            return row.bridges or {}, traits

        hosts, there = ["a", "b", "c"], {"dc1": "br0", "dc1.7": "br7"}
        answers = at_once(lambda number: harness.audit(hosts[number], bridges=there), len(hosts))
        assert [answer.bridges for answer in answers] == [there] * len(hosts)
        for host in hosts:
            assert bridges_of(host) == (there, {trait_of("dc1"), trait_of("dc1.7")})
        before = harness.count(models.HostChange)
        harness.audit("a", bridges={"dc1": "br0"})
        assert bridges_of("a") == ({"dc1": "br0"}, {trait_of("dc1")})
        assert harness.count(models.HostChange) > before
        harness.audit("a")
        assert bridges_of("a") == ({}, set())

    def test_when_a_node_was_audited_and_what_that_found_is_written_a_second_later(
        self, harness: ConductorHarness
    ) -> None:
        node, nothing = harness.audit("a"), NodeAudit()
        before = harness.row("a")
        for node_audit in (nothing, NodeAudit(orphans={"stranger": 256}), nothing):
            harness.conductor.finish_audit(CTX, node=node, inventories=(), found=node_audit)
            harness.now += 1.5
            harness.tick(harness.conductor)
            with harness.db.read() as session:
                written = node_audits.of_nodes(session, [before.id])[before.id]
            assert (written.found, written.audited_at.timestamp() < harness.now) == (node_audit, True)
        # It is no change of the node, or every audit would be one.
        assert harness.row("a").updated_at == before.updated_at

    def test_an_audit_of_a_node_that_is_gone_meanwhile_is_forgotten(self, harness: ConductorHarness) -> None:
        node = harness.audit("a")
        harness.conductor.finish_audit(CTX, node=node, inventories=(), found=NodeAudit())
        harness.tick(harness.conductor)
        harness.conductor.finish_audit(CTX, node=node, inventories=(), found=NodeAudit())
        harness.conductor.delete_compute_nodes(CTX, host="a", nodes=("a-node",))
        harness.tick(harness.conductor)
        assert harness.count(models.NodeAudit) == 0

    def test_a_node_without_a_row_is_told_so(self, harness: ConductorHarness) -> None:
        with pytest.raises(errors.NotFound, match="nowhere-node"):
            harness.conductor.save_compute_node(CTX, node=harness.node("nowhere"))

    def test_usage_between_audits_is_written(self, harness: ConductorHarness) -> None:
        saved = harness.conductor.save_compute_node(CTX, node=harness.node("a", vcpus_used=3, stats={"n": "1"}))
        assert (saved.vcpus_used, harness.row("a").stats) == (3, {"n": "1"})

    def test_what_the_database_knows_of_a_node(self, harness: ConductorHarness) -> None:
        running = harness.active()
        (building,) = harness.create()
        inputs = harness.conductor.begin_audit(CTX, host="a", view=harness.view("a", running))
        assert [instance.uuid for instance in inputs.instances] == [running]
        assert [attempt.instance.uuid for attempt in inputs.attempts] == [building]
        assert inputs.node is not None
        assert (inputs.node.hypervisor_hostname, inputs.host_nodes, inputs.unexpected_domains) == (
            "a-node",
            ("a-node",),
            (),
        )
        on_host = harness.conductor.instances_of_host(CTX, host="a")
        assert (on_host.instances, on_host.attempts) == (inputs.instances, inputs.attempts)

    def test_strays_and_orphans_are_told_apart(self, harness: ConductorHarness) -> None:
        elsewhere, (building,) = harness.active(), harness.create()
        given_up = harness.create()[0]
        harness.claim("a", given_up)
        harness.fail("a", given_up)
        unknown = named("an unmanaged domain")
        domains = (elsewhere, building, given_up, unknown)
        unexpected_domains = {
            host: harness.conductor.begin_audit(CTX, host=host, view=harness.view(host, *domains)).unexpected_domains
            for host in "ab"
        }
        assert unexpected_domains == {"a": (given_up,), "b": ()}, "the attempts of the others are those of host a"

    def test_how_long_ago_deleted_ones_were_deleted(self, harness: ConductorHarness) -> None:
        kept, gone = harness.active(), harness.active()
        harness.delete(gone)
        harness.conductor.instance_deleted(CTX, instance_uuid=gone, host="a")
        harness.now += 90.0
        inputs = harness.conductor.begin_audit(CTX, host="b", view=harness.view("b", kept, gone))
        assert (inputs.unexpected_domains, inputs.deleted) == ((gone,), {gone: 90.0})

    def test_allocations_of_instances_that_are_gone_are_freed(self, harness: ConductorHarness) -> None:
        uuid = harness.active()
        harness.db.run(lambda session: session.query(models.Instance).delete())
        harness.audit("a")
        assert harness.allocated() == {}
        assert uuid not in harness.allocated()

    def test_what_others_hold_of_a_node_stays(self, harness: ConductorHarness) -> None:
        uuid = harness.active()
        with harness.db.write() as session:
            session.query(models.Instance).delete()
            session.query(models.Consumer).update({"consumer_type": "VOLUME"})
        harness.audit("a")
        assert uuid in harness.allocated()

    def test_a_node_that_vanishes_goes_with_its_provider(self, harness: ConductorHarness) -> None:
        harness.conductor.delete_compute_nodes(CTX, host="a", nodes=("a-node", "never-was"))
        assert harness.conductor.begin_audit(CTX, host="a", view=harness.view("a")).node is None
        assert harness.used("a") == {}
        assert harness.count(models.ResourceProvider) == 2

    def test_power_states_are_of_the_hosts_own_instances(self, harness: ConductorHarness) -> None:
        uuid = harness.active()
        harness.report_power(uuid, 4, host="b")
        assert harness.instance(uuid).power_state == 1
        harness.conductor.report_power_states(CTX, host="a", states={uuid: 4, named("other"): 4})
        assert harness.instance(uuid).power_state == 4
        harness.conductor.report_power_states(CTX, host="a", states={uuid: 99})
        assert harness.instance(uuid).power_state == 4

    def test_the_hardware_of_a_guest_is_recorded_once_by_its_host(self, harness: ConductorHarness) -> None:
        uuid, first = harness.active(), ChosenHardware(machine_type="pc-q35-7.2", uefi=True)
        harness.conductor.record_hardware(CTX, host="b", chosen={uuid: first})
        assert MACHINE_TYPE not in harness.instance(uuid).system_metadata
        harness.act(uuid, "reboot_hard")
        harness.conductor.record_hardware(CTX, host="a", chosen={uuid: first})
        assert MACHINE_TYPE not in harness.instance(uuid).system_metadata
        other = harness.active()
        for chosen in (first, ChosenHardware(machine_type="pc-i440fx-7.2")):
            harness.conductor.record_hardware(CTX, host=str(harness.instance(other).host), chosen={other: chosen})
            assert first.recorded.items() <= harness.instance(other).system_metadata.items()


class ServiceCases:
    def test_registering_again_keeps_what_operators_have_set(self, harness: ConductorHarness) -> None:
        service = Service(uuid=named("service a"), host="a", binary="minova-compute", topic="compute")
        uuid = harness.conductor.register_service(CTX, service=service).service_uuid
        harness.conductor.update_service(CTX, service_uuid=uuid, disabled=True, disabled_reason="broken fan")
        again = msgspec.structs.replace(service, uuid=named("another"))
        assert harness.conductor.register_service(CTX, service=again).service_uuid == uuid
        changed = harness.conductor.update_service(CTX, service_uuid=uuid, forced_down=True)
        assert (changed.disabled, changed.disabled_reason, changed.forced_down) == (True, "broken fan", True)
        enabled = harness.conductor.update_service(CTX, service_uuid=uuid, disabled=False)
        assert (enabled.disabled, enabled.disabled_reason, enabled.forced_down) == (False, None, True)

    def test_who_never_registered_is_told_so(self, harness: ConductorHarness) -> None:
        with pytest.raises(errors.NotFound, match="nobody"):
            harness.conductor.heartbeat(CTX, host="nobody", binary="minova-compute")
        with pytest.raises(errors.NotFound):
            harness.conductor.update_service(CTX, service_uuid=named("no service"), disabled=True)

    def test_beats_are_written_together(self, harness: ConductorHarness) -> None:
        harness.now += 20
        for host in ("a", "b"):
            harness.conductor.heartbeat(CTX, host=host, binary="minova-compute")
        harness.tick(harness.conductor)
        assert sorted(self.seen(harness).values()) == [harness.now - 1, harness.now, harness.now, harness.now]

    @staticmethod
    def seen(harness: ConductorHarness) -> dict[int, float]:
        with harness.db.read() as session:
            return {row.service_id: row.last_seen for row in session.query(models.Heartbeat)}

    def test_in_a_cloud_of_many_hosts_each_beats_and_audits_less_often(self, harness: ConductorHarness) -> None:
        def told(by: Any) -> tuple[float, float]:
            answer = by.heartbeat(CTX, host="a", binary="minova-compute")
            return answer.heartbeat_interval, answer.audit_interval

        heartbeat_interval, audit_interval = told(harness.conductor)
        assert (heartbeat_interval, audit_interval < 1) == (10, True)
        more = 10_000 - len(self.seen(harness))
        alike = {"binary": "minova-compute", "topic": "compute", "created_at": datetime.fromtimestamp(harness.now, UTC)}
        rows = [{"uuid": named(f"service {n}"), "host": f"h{n}", **alike} for n in range(more)]
        harness.db.run(lambda session: session.execute(insert(models.Service), rows))
        harness.now += 61
        harness.tick(harness.conductor)
        assert told(harness.conductor) == (30, 250)
        # Not so seldom that one lost beat would make it look dead.
        harness.options["service_down_time"] = 30
        strict = harness.start("two")
        harness.tick(strict)
        assert told(strict)[0] == 15

    def test_any_message_of_a_host_is_a_sign_of_life(self, harness: ConductorHarness) -> None:
        harness.now += 10
        harness.conductor.begin_audit(CTX, host="c", view=harness.view("c"))
        harness.tick(harness.conductor)
        assert list(self.seen(harness).values()).count(harness.now) == 2

    def test_a_reason_to_be_down_is_written_at_once_and_announced(self, harness: ConductorHarness) -> None:
        before = harness.count(models.HostChange)
        harness.conductor.heartbeat(CTX, host="a", binary="minova-compute", down_reason="libvirtd is gone")
        assert self.reasons(harness) == ["libvirtd is gone"]
        assert harness.count(models.HostChange) > before
        harness.conductor.heartbeat(CTX, host="a", binary="minova-compute")
        assert self.reasons(harness) == []

    def test_a_reason_that_another_conductor_wrote_is_withdrawn(self, harness: ConductorHarness) -> None:
        other = harness.start("two")
        other.heartbeat(CTX, host="a", binary="minova-compute", down_reason="libvirtd is gone")
        harness.conductor.heartbeat(CTX, host="a", binary="minova-compute")
        harness.tick(harness.conductor, 10)
        assert self.reasons(harness) == []

    @staticmethod
    def reasons(harness: ConductorHarness) -> list[str]:
        with harness.db.read() as session:
            return [row.down_reason for row in session.query(models.Service) if row.down_reason]

    def test_while_no_conductor_works_no_service_falls_silent(self, harness: ConductorHarness) -> None:
        (uuid,) = harness.create()
        harness.now += 900
        harness.kill("one")
        other = harness.start("one")
        harness.tick(other, 5)
        assert harness.allocated() == {uuid: "a"}
        assert min(self.seen(harness).values()) > harness.now - 10
        assert max(self.seen(harness).values()) <= harness.now


class CatalogueCases:
    def test_flavors(self, harness: ConductorHarness) -> None:
        assert harness.conductor.create_flavor(CTX, flavor=FLAVOR) == FLAVOR
        for taken in ({"flavorid": "2"}, {"name": "other"}):
            with pytest.raises(errors.Conflict):
                harness.conductor.create_flavor(CTX, flavor=msgspec.structs.replace(FLAVOR, **taken))
        upper = msgspec.structs.replace(FLAVOR, flavorid="2", name="M1")
        assert harness.conductor.create_flavor(CTX, flavor=upper) == upper
        harness.conductor.delete_flavor(CTX, flavorid="1")
        with pytest.raises(errors.NotFound):
            harness.conductor.delete_flavor(CTX, flavorid="1")

    @pytest.mark.parametrize("wrong", [{"vcpus": 0}, {"memory_mb": -1}, {"root_gb": -1}, {"swap": -1}])
    def test_a_flavor_without_size_is_refused(self, harness: ConductorHarness, wrong: dict[str, int]) -> None:
        values = {"flavorid": "9", "name": "none", "vcpus": 1, "memory_mb": 1, "root_gb": 0}
        with pytest.raises(errors.BadRequest):
            harness.conductor.create_flavor(CTX, flavor=Flavor(**{**values, **wrong}))  # type: ignore[arg-type]

    def test_images(self, harness: ConductorHarness) -> None:
        image = harness.conductor.create_image(CTX, image=Image(id=named("i"), name="i"))
        assert image.created_at is not None
        saving = msgspec.structs.replace(image, status="saving", name="renamed")
        stored = harness.conductor.update_image(CTX, image=saving, expected_status="queued")
        assert (stored.status, stored.created_at) == ("saving", image.created_at)
        with pytest.raises(errors.Conflict, match="is saving, not queued"):
            harness.conductor.update_image(CTX, image=saving, expected_status="queued")
        with pytest.raises(errors.Conflict):
            harness.conductor.create_image(CTX, image=Image(id=named("i")))
        harness.conductor.delete_image(CTX, image_id=image.id)
        with pytest.raises(errors.NotFound):
            harness.conductor.update_image(CTX, image=saving, expected_status="saving")
        with pytest.raises(errors.NotFound):
            harness.conductor.delete_image(CTX, image_id=image.id)
        with pytest.raises(errors.Conflict):
            harness.conductor.create_image(CTX, image=Image(id=image.id))
        with pytest.raises(errors.NotFound):
            harness.conductor.update_image(CTX, image=saving, expected_status="queued")

    def test_id_of_a_deleted_image_that_an_older_conductor_has_used_again(self, harness: ConductorHarness) -> None:
        """It knows nothing of used ids: the second deletion finds the entry of the first."""
        harness.conductor.create_image(CTX, image=Image(id=named("i")))
        with harness.db.write() as session:
            session.add(models.DeletedImage(id=named("i")))
        harness.conductor.delete_image(CTX, image_id=named("i"))
        with pytest.raises(errors.Conflict):
            harness.conductor.create_image(CTX, image=Image(id=named("i")))

    def test_a_protected_image_stays(self, harness: ConductorHarness) -> None:
        harness.conductor.create_image(CTX, image=Image(id=named("i"), protected=True))
        with pytest.raises(errors.Forbidden):
            harness.conductor.delete_image(CTX, image_id=named("i"))
