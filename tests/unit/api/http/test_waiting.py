"""Requests that wait for a guest leave threads to all others."""

import pytest

from minova import errors
from minova.api.http.waiting import MAX_PER_PROJECT, WaitingRequests


def test_a_project_has_few_places_and_all_projects_together_have_a_bound() -> None:
    waiting = WaitingRequests(MAX_PER_PROJECT + 1)
    held = [waiting.place("a") for _ in range(MAX_PER_PROJECT)]
    for place in held:
        place.__enter__()
    with pytest.raises(errors.ServiceUnavailable, match="try again later"), waiting.place("a"):
        pass
    with waiting.place("b"), waiting.place("c"), pytest.raises(errors.ServiceUnavailable), waiting.place("b"):
        pass
    held.pop().__exit__(None, None, None)
    with waiting.place("a"), waiting.place("b"):
        pass


def test_a_request_that_fails_gives_its_place_back() -> None:
    waiting = WaitingRequests(1)
    for _ in range(2):
        with pytest.raises(KeyError), waiting.place("a"):
            raise KeyError
