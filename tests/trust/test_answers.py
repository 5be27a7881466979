"""Entries with the same answer, by the judge's verdicts."""

from __future__ import annotations

from askonce.trust.answers import _MOST_TALLIES, Answers


def test_a_first_answer_and_an_answer_unlike_its_neighbours_are_new() -> None:
    """Each gets an id of its own."""
    answers = Answers()
    one = answers.place([], [])
    assert answers.place([one], [False]) != one
    assert answers.place([one], [None]) != one


def test_an_answer_joins_the_group_that_most_verdicts_put_it_in() -> None:
    """One stray verdict among several does not carry it off."""
    answers = Answers()
    one, other = answers.place([], []), answers.place([], [])
    assert answers.place([one, one, other, one], [True, True, False, False]) == one
    assert answers.place([one, one, other, one], [False, True, True, False]) == other


def test_groups_that_are_joined_again_and_again_become_one() -> None:
    """A single joining answer may be an error of the judge; two without contradiction are not."""
    answers = Answers()
    one, other = answers.place([], []), answers.place([], [])
    answers.place([one, other], [True, True])
    assert answers.resolve(one) != answers.resolve(other)
    answers.place([other, one], [True, True])
    assert answers.resolve(one) == answers.resolve(other)
    answers.place([other, one], [True, True])
    assert answers.resolve(one) == answers.resolve(other)


def test_groups_that_are_mostly_parted_stay_apart() -> None:
    """Joins by an erring judge are outweighed by the verdicts that part the two."""
    answers = Answers()
    one, other = answers.place([], []), answers.place([], [])
    for _ in range(20):
        answers.place([one, other], [True, False])
    for _ in range(4):
        answers.place([one, other], [True, True])
    assert answers.resolve(one) != answers.resolve(other)


def test_merges_chain() -> None:
    """A third group that merges into the second goes by the first."""
    answers = Answers()
    ids = [answers.place([], []) for _ in range(3)]
    for _ in range(3):
        answers.place(ids, [True, True, True])
    assert len({answers.resolve(each) for each in ids}) == 1


def test_tallies_are_bounded() -> None:
    """The oldest pair of groups is forgotten first."""
    answers = Answers()
    first = answers.place([], [])
    for _ in range(_MOST_TALLIES + 10):
        answers.place([first, answers.place([], [])], [True, False])
    assert len(answers._tallies) <= _MOST_TALLIES
