"""Why there was no host, in a line for users."""

from typing import Any

import pytest

from minova.objects.requests.diagnosis import Diagnosis, FilterStep


def step(name: str = "placement", before: int = 3, after: int = 0, **lacking: int) -> FilterStep:
    return FilterStep(name=name, before=before, after=after, lacking=lacking)


@pytest.mark.parametrize(
    ("of", "summary"),
    [
        (step(), "placement removed 3"),
        (step(after=1, memory=2), "placement removed 2 (memory)"),
        (step(memory=2, disk=3), "placement removed 3 (memory: 2, disk)"),
        (
            step("ignore_hosts", before=2, after=1),
            "ignore_hosts removed 1 (the server must leave it, or a copy of the server is there, or the request excludes it)",
        ),
    ],
)
def test_a_step_says_what_its_hosts_lack(of: FilterStep, summary: str) -> None:
    assert of.summary() == summary


def summary(*steps: FilterStep, instances: int = 1, hosts: int = 3, **more: Any) -> str:
    uuids = tuple(f"{number}" for number in range(instances))
    text = Diagnosis(request_id="r", instance_uuids=uuids, hosts=hosts, steps=steps, **more).summary()
    assert text.startswith("No valid host was found. ")
    return text.removeprefix("No valid host was found. ")


def test_a_summary_counts_hosts_and_names_the_steps_that_lost_any() -> None:
    assert summary(step(after=2), step("Idle", 2, 2), step("Ram", 2, 0)) == (
        "3 hosts: placement removed 1, Ram removed 2."
    )
    assert summary(step(before=1), hosts=1) == "1 host: placement removed 1."
    assert summary(step(before=1), instances=2, found=1, hosts=1) == (
        "Only 1 of 2 instances had one. 1 host: placement removed 1."
    )
    assert summary(hosts=0) == "0 hosts known."
    assert summary(hosts=1, instances=2) == "1 host known."
    assert summary(error="No compute host is known.") == "No compute host is known."
    assert summary(step(before=2, after=2), error="Why.") == "Why."
