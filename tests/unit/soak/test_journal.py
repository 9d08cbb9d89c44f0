"""Promises to users of a database that goes back in time."""

from tests.soak.journal import Guest, Journal, Loss


def journal_with_a_create() -> Journal:
    journal = Journal()
    journal.create_sent("one", "single", 1)
    journal.create_answered("one")
    return journal


def test_a_create_that_was_answered_since_the_backup_may_be_lost() -> None:
    journal = journal_with_a_create()
    create = journal.creates["one"]
    assert create.answered_at is not None
    journal.lost(Loss(since=create.answered_at - 1, until=create.answered_at + 1))
    assert journal.may_be_lost(create)


def test_a_create_that_was_answered_before_the_backup_or_sent_after_the_loss_is_a_promise() -> None:
    journal = journal_with_a_create()
    create = journal.creates["one"]
    assert create.answered_at is not None
    assert not journal.may_be_lost(create)
    journal.lost(Loss(since=create.answered_at + 1, until=create.answered_at + 2))
    journal.lost(Loss(since=create.sent_at - 2, until=create.sent_at - 1))
    assert not journal.may_be_lost(create)


def test_a_create_that_was_not_answered_is_to_be_repeated() -> None:
    journal = Journal()
    journal.create_sent("one", "single", 1)
    create = journal.creates["one"]
    journal.lost(Loss(since=create.sent_at - 1, until=create.sent_at + 1))
    assert not journal.may_be_lost(create)


def test_the_first_note_of_a_guest_counts() -> None:
    """Otherwise a guest that was built anew after one restore would be right after the next one."""
    journal = Journal()
    journal.ran({"a": Guest(compute="compute-1", attempt=1)})
    journal.ran({"a": Guest(compute="compute-2", attempt=2), "b": Guest(compute="compute-2", attempt=1)})
    assert journal.guests == {"a": Guest(compute="compute-1", attempt=1), "b": Guest(compute="compute-2", attempt=1)}
