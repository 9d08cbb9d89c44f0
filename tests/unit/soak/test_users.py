"""Which answers of an API a user of the soak asks for again."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3

from tests.soak.journal import Journal
from tests.soak.users import Client, Refused

URL, OTHER = "http://api-1", "http://api-2"


def answers(monkeypatch: pytest.MonkeyPatch, *statuses: int) -> None:
    left = list(statuses)

    def request(http: Any, method: str, url: str, **sent: Any) -> SimpleNamespace:
        return SimpleNamespace(status=left.pop(0), data=b"{}", json=dict)

    monkeypatch.setattr(urllib3.PoolManager, "request", request)


@pytest.mark.parametrize("status", [400, 404])
def test_what_an_api_at_another_clouds_database_does_not_know_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    journal = Journal()
    journal.misled_url = URL
    answers(monkeypatch, status, 200)
    assert Client([URL], "user", journal, Random(1)).ask("GET", "/v2.1/servers/x") == {}
    assert journal.repeats == {str(status): 1}


@pytest.mark.parametrize("misled", [OTHER, None], ids=["another API", "a conductor"])
def test_bug_answers_of_apis_at_their_own_database_were_asked_again(
    monkeypatch: pytest.MonkeyPatch, misled: str | None
) -> None:
    journal = Journal()
    journal.misled_url = misled
    answers(monkeypatch, 404, 200)
    with pytest.raises(Refused):
        Client([URL], "user", journal, Random(1)).ask("GET", "/v2.1/servers/x")
