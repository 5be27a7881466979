"""Words whose difference means another answer, learned from labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.trust.differences import SIZE, Differences, fresh, keys, logits
from askonce.trust.text.comparison import compare
from askonce.trust.text.reading import analyse

if TYPE_CHECKING:
    from askonce.trust.differences import Keys


def _keys(asked: str, cached: str) -> Keys:
    return keys(compare(analyse(asked), analyse(cached)))


def test_a_fresh_table_says_nothing() -> None:
    """Without labels every difference weighs nothing."""
    assert logits(fresh(), [_keys("buy a red car", "buy a blue car")]).tolist() == [0.0]


def test_words_that_change_answers_come_to_speak_against() -> None:
    """What is learned of a word holds for other texts that differ in it."""
    learned = Differences()
    for _ in range(20):
        learned.learn(_keys("classes this winter", "classes this spring"), 0.0, same=False)
        learned.learn(_keys("classes offered", "courses offered"), 0.0, same=True)
    against, silent = logits(
        learned.table, [_keys("labs in winter", "labs in spring"), _keys("red car", "blue car")]
    )
    assert against < -0.5
    assert abs(silent) < abs(against)


def test_what_everything_else_explains_moves_no_weight() -> None:
    """A pair that is already known to differ teaches nothing of its words."""
    sure, unsure = Differences(), Differences()
    touched = _keys("red car", "blue car")
    sure.learn(touched, -20.0, same=False)
    unsure.learn(touched, 0.0, same=False)
    assert abs(sure.table[touched]).max() < 1e-3 < abs(unsure.table[touched]).max()


def test_keys_are_bounded_and_never_empty() -> None:
    """Equal texts touch a key of their own, long ones no more than a bound."""
    assert len(_keys("where is it", "where is it")) >= 1
    long = " ".join(f"word{number}" for number in range(300))
    assert len(_keys(long, "where is it")) < 64
    assert 0 <= _keys(long, "where is it").min() <= _keys(long, "where is it").max() < SIZE


def test_a_swap_is_one_key_whichever_way_it_is_asked() -> None:
    """Red for blue and blue for red touch the same place."""
    assert _keys("red car", "blue car").tolist() == _keys("blue car", "red car").tolist()
