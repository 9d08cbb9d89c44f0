"""Messages of other clouds are refused; a few of those clouds are logged and remembered."""

import logging

import pytest

from minova import errors
from minova.messaging.own_cloud import MOST_CLOUDS_LOGGED, OwnCloud


@pytest.fixture
def own() -> OwnCloud:
    cloud = OwnCloud()
    cloud.learn("own")
    return cloud


def test_messages_of_the_own_cloud_and_of_senders_without_one_pass(own: OwnCloud) -> None:
    own.require("own")
    own.require(None)


def test_the_first_message_of_another_cloud_is_logged_and_all_are_refused(
    own: OwnCloud, caplog: pytest.LogCaptureFixture
) -> None:
    for sender in ("other", "third", "other"):
        with pytest.raises(errors.AnotherCloud, match=sender):
            own.require(sender)
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2


def test_bug_a_sender_of_many_identities_fills_neither_memory_nor_log(
    own: OwnCloud, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(10 * MOST_CLOUDS_LOGGED):
        with pytest.raises(errors.AnotherCloud):
            own.require(f"other-{number}")
    assert len(caplog.records) == MOST_CLOUDS_LOGGED
