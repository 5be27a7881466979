"""Entries with the same answer, by the judge's verdicts."""

from __future__ import annotations

from askonce.trust.answers import _MOST_TALLIES, SameAnswers


def _same(answers: SameAnswers, *names: bytes) -> bool:
    return len({answers.of(name, b"question of " + name) for name in names}) == 1


def test_what_nobody_judged_stands_for_itself() -> None:
    """An entry without verdicts has its own key as its answer."""
    assert SameAnswers().of(b"entry", b"question") == b"entry"


def test_a_question_and_the_entry_it_became_are_one() -> None:
    """What was said of the question holds for the entry that its answer is stored as."""
    answers = SameAnswers()
    answers.place(b"question", {b"one": True})
    assert answers.of(b"two", b"question") == answers.of(b"one", b"another")


def test_a_question_goes_where_most_verdicts_put_it() -> None:
    """One stray verdict among several does not carry it off, and a second asking moves it."""
    answers = SameAnswers()
    answers.join(b"a", b"a2")
    answers.join(b"a", b"a3")
    answers.join(b"b", b"b2")
    answers.place(b"q", {b"a": True, b"a2": True, b"a3": False, b"b": True, b"b2": False})
    assert _same(answers, b"q", b"a")
    answers.place(b"q", {b"a": False, b"b": True})
    assert _same(answers, b"q", b"b")


def test_a_question_unlike_all_its_neighbours_joins_none() -> None:
    """Verdicts against leave it alone."""
    answers = SameAnswers()
    answers.place(b"q", {b"a": False})
    assert answers.of(b"q", b"?") == b"q"


def test_groups_joined_again_and_again_become_one() -> None:
    """One joining answer may be the judge's error; two without contradiction are not."""
    answers = SameAnswers()
    answers.place(b"q", {b"a": True, b"b": True})
    assert not _same(answers, b"a", b"b")
    answers.place(b"r", {b"b": True, b"a": True})
    assert _same(answers, b"a", b"b")


def test_groups_mostly_parted_stay_apart() -> None:
    """Stray joins are outweighed by the verdicts that part the two."""
    answers = SameAnswers()
    for number in range(20):
        answers.place(b"q%d" % number, {b"a": True, b"b": False})
    for number in range(4):
        answers.place(b"r%d" % number, {b"a": True, b"b": True})
    assert not _same(answers, b"a", b"b")


def test_two_whole_groups_can_be_joined() -> None:
    """The smaller goes over to the larger, with all its members."""
    answers = SameAnswers()
    answers.join(b"a", b"a2")
    answers.join(b"a", b"a3")
    answers.join(b"b", b"b2")
    answers.join(b"b", b"a2")
    assert _same(answers, b"a", b"a3", b"b", b"b2")


def test_a_group_that_is_gone_merges_with_nothing() -> None:
    """Retracting the only member of a group between two joins leaves the other as it is."""
    answers = SameAnswers()
    answers.place(b"q", {b"a": True, b"b": True})
    answers._merge(1, 99)
    answers._merge(1, 1)
    answers.forget(b"a")
    answers.forget(b"a")
    assert not _same(answers, b"a", b"b")


def test_names_and_tallies_are_bounded() -> None:
    """The longest unused names leave first, and the oldest tallies."""
    answers = SameAnswers(limit=10)
    for number in range(_MOST_TALLIES + 10):
        answers.place(b"q%d" % number, {b"a": True, b"b%d" % number: False})
    assert len(answers) <= 10
    assert len(answers._tallies) <= _MOST_TALLIES
