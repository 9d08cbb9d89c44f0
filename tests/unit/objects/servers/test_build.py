"""Why a report was not written."""

import pytest

from minova import errors
from minova.objects.servers.build import ReportAnswer, refusal


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (ReportAnswer(), None),
        (ReportAnswer(stale="s"), errors.StaleAttempt),
        (ReportAnswer(misfit="s"), errors.ComputeResourcesUnavailable),
        (ReportAnswer(error="s"), errors.MinovaError),
    ],
)
def test_a_refusal_is_an_error_with_its_text(answer: ReportAnswer, error: type[Exception] | None) -> None:
    refused = refusal(answer)
    assert (refused is None) is (error is None)
    assert error is None or (type(refused), str(refused)) == (error, "s")
