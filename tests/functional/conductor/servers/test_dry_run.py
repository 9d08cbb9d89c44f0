"""What a conductor asks of the scheduler for a preview: the request that it would write, and nothing is written."""

from typing import Any

import msgspec
import pytest

from minova import errors
from minova.db import models
from minova.objects.requests.server_request import ServerRequest
from minova.objects.servers.failures import text_of
from tests.functional.conductor.conductor_harness import CTX, FLAVOR, IMAGE, ConductorHarness, request
from tests.functional.scheduler.cloud import named

PINNED = msgspec.structs.replace(FLAVOR, extra_specs={"hw:cpu_policy": "dedicated"})


def request_with(harness: ConductorHarness, **more: Any) -> Any:
    """The spec of a creation, and the spec of a preview of the same."""
    harness.conductor.preview_servers(CTX, request=request(**more))
    harness.create(**more)
    return harness.scheduler.specs[-2:]


@pytest.mark.parametrize(
    "more",
    [
        {"count": 3},
        {"availability_zone": "z", "force_host": "b", "force_node": "b-node"},
        {"flavor": PINNED},
        {"scheduler_hints": {"same_host": [named("x")]}},
    ],
)
def test_a_preview_asks_for_what_a_creation_asks_for(harness: ConductorHarness, more: dict[str, Any]) -> None:
    preview, creation = request_with(harness, **more)
    assert preview == creation


def test_a_preview_counts_the_group_as_it_is(harness: ConductorHarness) -> None:
    group = harness.conductor.create_server_group(CTX, name="g", policy="anti-affinity")
    (member,) = harness.create(scheduler_hints={"group": group.uuid})
    preview, creation = request_with(harness, scheduler_hints={"group": group.uuid})
    assert preview.instance_group.members == (member,)
    assert preview.instance_group.hosts == creation.instance_group.hosts == ("a",)
    assert set(creation.instance_group.members) > {member}


def test_a_preview_writes_nothing(harness: ConductorHarness) -> None:
    answer = harness.conductor.preview_servers(CTX, request=request(count=4))
    assert len(set(answer.diagnosis.instance_uuids)) == 4
    for model in (models.Instance, models.Task, models.RequestSpecRow, models.DiagnosisRow, models.Allocation):
        assert harness.count(model) == 0


def test_capacity_is_asked_with_or_without_an_image(harness: ConductorHarness) -> None:
    for image in (IMAGE, None):
        capacity = harness.conductor.capacity(CTX, request=ServerRequest(flavor=PINNED, image=image), limit=7)
        assert (capacity.total, capacity.limit) == (3, 7)
        spec = harness.scheduler.specs[-1]
        assert spec.image == image
        assert spec.numa_topology is not None


def test_what_cannot_be_is_refused(harness: ConductorHarness) -> None:
    lost = {"group": named("no such group")}
    with pytest.raises(errors.BadRequest, match=r"Server group .* could not be found"):
        harness.conductor.preview_servers(CTX, request=request(scheduler_hints=lost))
    flavor = msgspec.structs.replace(FLAVOR, extra_specs={"hw:cpu_policy": "often"})
    with pytest.raises(errors.BadRequest, match="often"):
        harness.conductor.capacity(CTX, request=ServerRequest(flavor=flavor), limit=1)


def test_what_broke_in_a_filter_is_told_to_administrators_alone(harness: ConductorHarness) -> None:
    harness.scheduler.mood = RuntimeError("a filter broke")
    diagnosis = harness.conductor.preview_servers(CTX, request=request()).diagnosis
    assert (diagnosis.error, diagnosis.hosts) == (text_of("SchedulingFailed"), 0)
    assert "a filter broke" not in diagnosis.summary()
    # Capacity is for administrators.
    assert harness.conductor.capacity(CTX, request=request(), limit=7).error == "Scheduling failed: a filter broke"


def test_a_preview_without_an_answer_or_with_a_wrong_one_is_an_error(harness: ConductorHarness) -> None:
    for mood in (errors.ServiceUnavailable("No answer in time"), errors.BadRequest("A hint makes no sense")):
        harness.scheduler.mood = mood
        with pytest.raises(type(mood), match=str(mood)):
            harness.conductor.preview_servers(CTX, request=request())


def test_one_project_may_use_all_places_and_others_get_as_many_again(
    harness: ConductorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each asks while those before it wait for their answers."""
    harness.options["conductor__max_concurrent_dry_runs"] = 3
    conductor, preview = harness.start("two"), harness.scheduler.preview_destinations
    projects = list("aaaabcde")
    served: list[str] = []
    refusals: list[str] = []

    def ask_next() -> None:
        if not projects:
            return
        project = projects.pop(0)
        try:
            conductor.preview_servers(msgspec.structs.replace(CTX, project_id=project), request=request())
        except errors.ServiceUnavailable as error:
            refusals.append(str(error))
            ask_next()
        else:
            served.append(project)

    def preview_slowly(*arguments: Any, **more: Any) -> Any:
        ask_next()
        return preview(*arguments, **more)

    monkeypatch.setattr(harness.scheduler, "preview_destinations", preview_slowly)
    ask_next()
    assert sorted(served) == ["a", "a", "a", "b", "c", "d"]
    assert [text.partition(" in this conductor")[0] for text in refusals] == ["3 dry runs are under way"] * 2
    projects.append("a")
    ask_next()
    assert served[-1] == "a", "all places are free again"
