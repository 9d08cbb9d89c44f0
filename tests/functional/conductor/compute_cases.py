"""Audits, services, and the catalogue."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from sqlalchemy import insert

from minova import errors
from minova.db import models
from minova.db.hosts import node_audits
from minova.objects.flavor import Flavor
from minova.objects.image import Image
from minova.objects.node_audit import NodeAudit
from minova.objects.service import Service
from tests.functional.conductor.desk import CTX, FLAVOR, Desk
from tests.functional.scheduler.cloud import named

REQUEST = named("a client's own")


class AuditCases:
    def test_a_node_is_made_once_and_written_when_it_changes(self, desk: Desk) -> None:
        first = desk.row("a")
        desk.audit("a")
        assert desk.row("a").generation == first.generation
        desk.audit("a", memory_mb=8192)
        assert (desk.row("a").generation, desk.row("a").memory_mb) == (first.generation + 1, 8192)

    def test_every_change_is_announced_and_nothing_else(self, desk: Desk) -> None:
        before = desk.count(models.HostChange)
        desk.audit("a")
        assert desk.count(models.HostChange) == before
        desk.audit("a", cpu_info="new")
        assert desk.count(models.HostChange) > before

    def test_when_a_node_was_audited_and_what_that_found_is_written_a_second_later(self, desk: Desk) -> None:
        node, nothing = desk.audit("a"), NodeAudit()
        before = desk.row("a")
        for found in (nothing, NodeAudit(orphans={"stranger": 256}), nothing):
            desk.conductor.finish_audit(CTX, node=node, inventories=(), found=found)
            desk.now += 1.5
            desk.tick(desk.conductor)
            with desk.db.read() as session:
                written = node_audits.of_nodes(session, [before.id])[before.id]
            assert (written.found, written.audited_at.timestamp() < desk.now) == (found, True)
        # It is no change of the node, or every audit would be one.
        assert desk.row("a").updated_at == before.updated_at

    def test_an_audit_of_a_node_that_is_gone_meanwhile_is_forgotten(self, desk: Desk) -> None:
        node = desk.audit("a")
        desk.conductor.finish_audit(CTX, node=node, inventories=(), found=NodeAudit())
        desk.tick(desk.conductor)
        desk.conductor.finish_audit(CTX, node=node, inventories=(), found=NodeAudit())
        desk.conductor.delete_compute_nodes(CTX, host="a", nodes=("a-node",))
        desk.tick(desk.conductor)
        assert desk.count(models.NodeAudit) == 0

    def test_a_node_without_a_row_is_told_so(self, desk: Desk) -> None:
        with pytest.raises(errors.NotFound, match="nowhere-node"):
            desk.conductor.save_compute_node(CTX, node=desk.node("nowhere"))

    def test_usage_between_audits_is_written(self, desk: Desk) -> None:
        saved = desk.conductor.save_compute_node(CTX, node=desk.node("a", vcpus_used=3, stats={"n": "1"}))
        assert (saved.vcpus_used, desk.row("a").stats) == (3, {"n": "1"})

    def test_what_the_database_knows_of_a_node(self, desk: Desk) -> None:
        running = desk.active()
        (building,) = desk.create()
        inputs = desk.conductor.begin_audit(CTX, host="a", view=desk.view("a", running))
        assert [one.uuid for one in inputs.instances] == [running]
        assert [one.instance.uuid for one in inputs.attempts] == [building]
        assert inputs.node is not None
        assert (inputs.node.hypervisor_hostname, inputs.host_nodes, inputs.unexpected_domains) == (
            "a-node",
            ("a-node",),
            (),
        )
        here = desk.conductor.instances_of_host(CTX, host="a")
        assert (here.instances, here.attempts) == (inputs.instances, inputs.attempts)

    def test_strays_and_orphans_are_told_apart(self, desk: Desk) -> None:
        elsewhere, (building,) = desk.active(), desk.create()
        given_up = desk.create()[0]
        desk.claim("a", given_up)
        desk.fail("a", given_up)
        unknown = named("somebody's own domain")
        domains = (elsewhere, building, given_up, unknown)
        unexpected_domains = {
            host: desk.conductor.begin_audit(CTX, host=host, view=desk.view(host, *domains)).unexpected_domains
            for host in "ab"
        }
        assert unexpected_domains == {"a": (given_up,), "b": (elsewhere, building)}

    def test_how_long_ago_deleted_ones_were_deleted(self, desk: Desk) -> None:
        moved, gone = desk.active(), desk.active()
        desk.delete(gone)
        desk.conductor.instance_deleted(CTX, instance_uuid=gone, host="a")
        desk.now += 90.0
        inputs = desk.conductor.begin_audit(CTX, host="b", view=desk.view("b", moved, gone))
        assert (gone in inputs.unexpected_domains, inputs.deleted) == (True, {gone: 90.0})

    def test_allocations_of_instances_that_are_gone_are_freed(self, desk: Desk) -> None:
        uuid = desk.active()
        desk.db.run(lambda session: session.query(models.Instance).delete())
        desk.audit("a")
        assert desk.allocated() == {}
        assert uuid not in desk.allocated()

    def test_what_others_hold_of_a_node_stays(self, desk: Desk) -> None:
        uuid = desk.active()
        with desk.db.write() as session:
            session.query(models.Instance).delete()
            session.query(models.Consumer).update({"consumer_type": "VOLUME"})
        desk.audit("a")
        assert uuid in desk.allocated()

    def test_a_node_that_vanishes_goes_with_its_provider(self, desk: Desk) -> None:
        desk.conductor.delete_compute_nodes(CTX, host="a", nodes=("a-node", "never-was"))
        assert desk.conductor.begin_audit(CTX, host="a", view=desk.view("a")).node is None
        assert desk.used("a") == {}
        assert desk.count(models.ResourceProvider) == 2

    def test_power_states_are_of_the_hosts_own_instances(self, desk: Desk) -> None:
        uuid = desk.active()
        desk.conductor.report_power_states(CTX, host="b", states={uuid: 4})
        assert desk.instance(uuid).power_state == 1
        desk.conductor.report_power_states(CTX, host="a", states={uuid: 4, named("other"): 4})
        assert desk.instance(uuid).power_state == 4
        desk.conductor.report_power_states(CTX, host="a", states={uuid: 99})
        assert desk.instance(uuid).power_state == 4


class ServiceCases:
    def test_registering_again_keeps_what_operators_have_set(self, desk: Desk) -> None:
        service = Service(uuid=named("service a"), host="a", binary="minova-compute", topic="compute")
        uuid = desk.conductor.register_service(CTX, service=service).service_uuid
        desk.conductor.update_service(CTX, service_uuid=uuid, disabled=True, disabled_reason="broken fan")
        again = msgspec.structs.replace(service, uuid=named("another"))
        assert desk.conductor.register_service(CTX, service=again).service_uuid == uuid
        changed = desk.conductor.update_service(CTX, service_uuid=uuid, forced_down=True)
        assert (changed.disabled, changed.disabled_reason, changed.forced_down) == (True, "broken fan", True)
        enabled = desk.conductor.update_service(CTX, service_uuid=uuid, disabled=False)
        assert (enabled.disabled, enabled.disabled_reason, enabled.forced_down) == (False, None, True)

    def test_who_never_registered_is_told_so(self, desk: Desk) -> None:
        with pytest.raises(errors.NotFound, match="nobody"):
            desk.conductor.heartbeat(CTX, host="nobody", binary="minova-compute")
        with pytest.raises(errors.NotFound):
            desk.conductor.update_service(CTX, service_uuid=named("no service"), disabled=True)

    def test_beats_are_written_together(self, desk: Desk) -> None:
        desk.now += 20
        for host in ("a", "b"):
            desk.conductor.heartbeat(CTX, host=host, binary="minova-compute")
        desk.tick(desk.conductor)
        assert sorted(self.seen(desk).values()) == [desk.now - 1, desk.now, desk.now, desk.now]

    @staticmethod
    def seen(desk: Desk) -> dict[int, float]:
        with desk.db.read() as session:
            return {row.service_id: row.last_seen for row in session.query(models.Heartbeat)}

    def test_in_a_cloud_of_many_hosts_each_beats_and_audits_less_often(self, desk: Desk) -> None:
        def told(by: Any) -> tuple[float, float]:
            said = by.heartbeat(CTX, host="a", binary="minova-compute")
            return said.heartbeat_interval, said.audit_interval

        heartbeat_interval, audit_interval = told(desk.conductor)
        assert (heartbeat_interval, audit_interval < 1) == (10, True)
        more = 10_000 - len(self.seen(desk))
        alike = {"binary": "minova-compute", "topic": "compute", "created_at": datetime.fromtimestamp(desk.now, UTC)}
        rows = [{"uuid": named(f"service {n}"), "host": f"h{n}", **alike} for n in range(more)]
        desk.db.run(lambda session: session.execute(insert(models.Service), rows))
        desk.now += 61
        desk.tick(desk.conductor)
        assert told(desk.conductor) == (30, 250)
        # Not so seldom that one lost beat would make it look dead.
        desk.options["service_down_time"] = 30
        strict = desk.start("two")
        desk.tick(strict)
        assert told(strict)[0] == 15

    def test_any_message_of_a_host_is_a_sign_of_life(self, desk: Desk) -> None:
        desk.now += 10
        desk.conductor.begin_audit(CTX, host="c", view=desk.view("c"))
        desk.tick(desk.conductor)
        assert list(self.seen(desk).values()).count(desk.now) == 2

    def test_a_reason_to_be_down_is_written_at_once_and_announced(self, desk: Desk) -> None:
        before = desk.count(models.HostChange)
        desk.conductor.heartbeat(CTX, host="a", binary="minova-compute", down_reason="libvirtd is gone")
        assert self.reasons(desk) == ["libvirtd is gone"]
        assert desk.count(models.HostChange) > before
        desk.conductor.heartbeat(CTX, host="a", binary="minova-compute")
        assert self.reasons(desk) == []

    def test_a_reason_that_another_conductor_wrote_is_withdrawn(self, desk: Desk) -> None:
        other = desk.start("two")
        other.heartbeat(CTX, host="a", binary="minova-compute", down_reason="libvirtd is gone")
        desk.conductor.heartbeat(CTX, host="a", binary="minova-compute")
        desk.tick(desk.conductor, 10)
        assert self.reasons(desk) == []

    @staticmethod
    def reasons(desk: Desk) -> list[str]:
        with desk.db.read() as session:
            return [row.down_reason for row in session.query(models.Service) if row.down_reason]

    def test_while_no_conductor_works_nobody_grows_silent(self, desk: Desk) -> None:
        (uuid,) = desk.create()
        desk.now += 900
        desk.kill("one")
        other = desk.start("one")
        desk.tick(other, 5)
        assert desk.allocated() == {uuid: "a"}
        assert min(self.seen(desk).values()) > desk.now - 10
        assert max(self.seen(desk).values()) <= desk.now


class CatalogueCases:
    def test_flavors(self, desk: Desk) -> None:
        assert desk.conductor.create_flavor(CTX, flavor=FLAVOR) == FLAVOR
        for taken in ({"flavorid": "2"}, {"name": "other"}):
            with pytest.raises(errors.Conflict):
                desk.conductor.create_flavor(CTX, flavor=msgspec.structs.replace(FLAVOR, **taken))
        upper = msgspec.structs.replace(FLAVOR, flavorid="2", name="M1")
        assert desk.conductor.create_flavor(CTX, flavor=upper) == upper
        desk.conductor.delete_flavor(CTX, flavorid="1")
        with pytest.raises(errors.NotFound):
            desk.conductor.delete_flavor(CTX, flavorid="1")

    @pytest.mark.parametrize("wrong", [{"vcpus": 0}, {"memory_mb": -1}, {"root_gb": -1}, {"swap": -1}])
    def test_a_flavor_without_size_is_refused(self, desk: Desk, wrong: dict[str, int]) -> None:
        values = {"flavorid": "9", "name": "none", "vcpus": 1, "memory_mb": 1, "root_gb": 0}
        with pytest.raises(errors.BadRequest):
            desk.conductor.create_flavor(CTX, flavor=Flavor(**{**values, **wrong}))  # type: ignore[arg-type]

    def test_images(self, desk: Desk) -> None:
        made = desk.conductor.create_image(CTX, image=Image(id=named("i"), name="i"))
        assert made.created_at is not None
        saving = msgspec.structs.replace(made, status="saving", name="renamed")
        stored = desk.conductor.update_image(CTX, image=saving, expected_status="queued")
        assert (stored.status, stored.created_at) == ("saving", made.created_at)
        with pytest.raises(errors.Conflict, match="is saving, not queued"):
            desk.conductor.update_image(CTX, image=saving, expected_status="queued")
        with pytest.raises(errors.Conflict):
            desk.conductor.create_image(CTX, image=Image(id=named("i")))
        desk.conductor.delete_image(CTX, image_id=made.id)
        with pytest.raises(errors.NotFound):
            desk.conductor.update_image(CTX, image=saving, expected_status="saving")
        with pytest.raises(errors.NotFound):
            desk.conductor.delete_image(CTX, image_id=made.id)
        with pytest.raises(errors.Conflict):
            desk.conductor.create_image(CTX, image=Image(id=made.id))
        with pytest.raises(errors.NotFound):
            desk.conductor.update_image(CTX, image=saving, expected_status="queued")

    def test_id_of_a_deleted_image_that_an_older_conductor_has_used_again(self, desk: Desk) -> None:
        """It knows nothing of used ids: the second deletion finds the entry of the first."""
        desk.conductor.create_image(CTX, image=Image(id=named("i")))
        with desk.db.write() as session:
            session.add(models.DeletedImage(id=named("i")))
        desk.conductor.delete_image(CTX, image_id=named("i"))
        with pytest.raises(errors.Conflict):
            desk.conductor.create_image(CTX, image=Image(id=named("i")))

    def test_a_protected_image_stays(self, desk: Desk) -> None:
        desk.conductor.create_image(CTX, image=Image(id=named("i"), protected=True))
        with pytest.raises(errors.Forbidden):
            desk.conductor.delete_image(CTX, image_id=named("i"))
