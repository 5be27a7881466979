"""Answers judged by rules."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askonce.judges.calibration import AnswerPair, shipped_pairs
from askonce.ports import Verdict
from askonce.trust.text.judge import LONGEST, Thresholds, compare, with_similarity
from askonce.units import Cosine

PAIRS = shipped_pairs()


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.kind}-{pair.a[:20]}")
def test_is_never_wrong_on_the_shipped_pairs(pair: AnswerPair) -> None:
    """On the pairs it was made with it is right or unsure, whichever answer comes first."""
    there = compare(pair.a, pair.b, pair.question)
    back = compare(pair.b, pair.a, pair.question)
    assert there.agreement in {pair.truth, "unsure"}
    assert back.agreement == there.agreement


def test_is_sure_of_most_shipped_pairs() -> None:
    """Four of five pairs get a verdict, so that silence is no way to be right."""
    sure = sum(compare(pair.a, pair.b, pair.question).agreement != "unsure" for pair in PAIRS)
    assert sure >= 0.8 * len(PAIRS)


@pytest.mark.parametrize(
    ("one", "other", "agreement", "how"),
    [
        ("Paris", "Paris\n", "same", "equal"),
        ("Paris", " ", "different", "empty"),
        ("!!", "??", "unsure", "wordless"),
        ("42", "42.0 km", "same", "number"),
        ("3.14", "3.14159", "unsure", "rounded"),
        ("100000000001", "100000000002", "different", "number"),
        ("1234567890123456789", "1234567890123456780", "different", "numbers"),
        ("about 5 km", "5 km", "same", "number"),
        ("5 km north", "6 km south", "different", "numbers"),
        ("03/04/2025", "2025-03-04", "unsure", "date"),
        ("03/04/2025", "The answer is 03/04/2025.", "same", "equal"),
        ("13/04/2025", "April 13, 2025", "same", "equal"),
        ("99/99/2025", "2025-99-99", "different", "number"),
        ("mouses", "mouse", "unsure", "spelling"),
        ("No, pets are not allowed.", "Pets are not allowed.", "same", "equal"),
        ("Use `a`.", "Use `b`.", "different", "codes"),
        ("Yes, if it rains", "Yes.", "unsure", "wording"),
        ("I cannot help with that.", "Paris", "different", "refusal"),
        ("They met every user.", "They met any user.", "unsure", "small"),
        ("He can go home.", "She can go home.", "unsure", "person"),
        ("Charge it before you sell it.", "Sell it before you charge it.", "different", "order"),
        ("Version 1 of the tool", "The tool", "unsure", "more"),
        ("the file", "the file in it there", "same", "near"),
        ("it does", "it does have", "unsure", "wording"),
        ("Spain defeated Italy.", "Italy defeated Spain.", "different", "order"),
        ("-3", "3", "different", "number"),
        ("$5", "$5.00", "same", "equal"),
        ("5 - 3", "5 - 3 ", "same", "equal"),
        ("Option A", "Option B", "different", "names"),
        ("Option A", "The option", "unsure", "letters"),
        ("Vitamin A", "vitamin", "unsure", "letters"),
        ("not 5", "5", "different", "negation"),
        (
            "A lamp, a desk and a very small red box",
            "A lamp, a desk and a sofa",
            "unsure",
            "wording",
        ),
        ("x" * (LONGEST + 1), "y", "unsure", "long"),
    ],
)
def test_says_why(one: str, other: str, agreement: str, how: str) -> None:
    """Each verdict names the rule that gave it."""
    assert compare(one, other) == Verdict(agreement, how)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "other", "agreement"),
    [
        ('{"a": [1, 2]}', '{"a": [2, 1]}', "unsure"),
        ('{"a": [1, 2]}', '{"a": [3, 1]}', "different"),
        ('{"a": "It sums the rows."}', '{"a": "It adds lines together."}', "unsure"),
        ('{"a": "red"}', '{"a": "crimson"}', "different"),
        ('{"a": "Click the link."}', '{"a": "Please click the link."}', "same"),
        ('{"a": 1}', '{"a": true}', "different"),
        ("[" * 40 + "]" * 40, "[" * 40 + " ]" + "]" * 39, "unsure"),
        ("[" * 5000 + "]" * 5000, "[" * 5000 + " ]" + "]" * 4999, "unsure"),
        ("{not json", "{not json", "same"),
        ('{"a": 1}', "The value is 2 or more, who knows", "different"),
    ],
)
def test_compares_json_by_value(one: str, other: str, agreement: str) -> None:
    """Order of members and spelling of numbers do not matter; values and order of items do."""
    assert compare(one, other).agreement == agreement


@pytest.mark.parametrize(
    ("one", "other", "agreement"),
    [
        ("if a:\n  b()\nc()", "if a:\n    b()\nc()", "same"),
        ("if a:\n  b()\nc()", "if a:\n  b()\n  c()", "unsure"),
        ("total = 1", "summe = 1", "unsure"),
        ("a = 1\nb = 2", "a = 1", "unsure"),
        ("a = 'it\"s'", 'a = "its"', "different"),
    ],
)
def test_compares_code_but_for_its_layout(one: str, other: str, agreement: str) -> None:
    """Depth of indentation counts, its width does not; renamed variables leave it unsure."""
    assert compare(f"```py\n{one}\n```", f"~~~python\n{other}\n~~~").agreement == agreement


def test_code_without_a_fence_can_match_code_in_one() -> None:
    """A bare command is the fenced command; an open fence ends with the text."""
    assert compare("ls  -la", "```\nls -la\n```") == Verdict("same", "code")
    assert compare("```\nls -la", "```\nls -la\n```") == Verdict("same", "code")
    assert compare("```a\n```a\n", "```a\n```b\n").agreement == "unsure"


def numbered(count: int, of: str) -> str:
    """A list of so many items."""
    return "\n".join(f"- the {of} number {i} there" for i in range(count))


@pytest.mark.parametrize(
    ("one", "other", "verdict"),
    [
        ("1. a\n2. b", "1. b\n2. a", Verdict("unsure", "order")),
        ("- a\n- a\n- b", "- b\n- a\n- a", Verdict("same", "list")),
        ("- a\n- a\n- b", "- b\n- b\n- a", Verdict("different", "list")),
        ("- red\n- blue", "- red\n- blue\n- green", Verdict("unsure", "list")),
        ("- 1 km\n- cold", "- cold\n- 1000 m", Verdict("same", "list")),
        (numbered(50, "x"), numbered(50, "y"), Verdict("unsure", "long")),
        (numbered(20, "x"), numbered(20, "y"), Verdict("unsure", "list")),
    ],
)
def test_compares_lists_as_sets(one: str, other: str, verdict: Verdict) -> None:
    """Bullets may come in any order, each as often; numbered steps may not."""
    assert compare(one, other) == verdict


def test_one_detail_in_a_long_answer_is_no_proof() -> None:
    """Numbers that differ in long texts of other words leave it unsure."""
    one = "first we walk along the river and then over 3 hills " * 4
    other = "cook everything slowly until it is done, which takes 50 minutes, " * 4
    assert compare(one, other) == Verdict("unsure", "numbers")
    assert compare(one, one.replace("3", "4")) == Verdict("different", "numbers")


def test_a_span_of_code_in_long_answers_is_no_proof() -> None:
    """Other commands between backticks are evidence in answers that are alike or brief."""
    one, other = " and then wait until everything has come to rest" * 5, " while it runs there" * 9
    assert compare(f"Run `foo`{one}", f"Run `bar`{other}") == Verdict("unsure", "codes")
    assert compare(f"Run `foo`{one}", f"Run `bar`{one}").agreement == "different"
    assert compare("Run `foo`", "Run `bar`").agreement == "different"


def test_likeness_ends_doubt_without_a_reason() -> None:
    """Embeddings speak where rules found nothing, and never against what they found."""
    thresholds = Thresholds(same=Cosine(0.9), different=Cosine(0.2))
    silent = Verdict("unsure", "wording")
    doubtful = Verdict("unsure", "numbers")
    assert with_similarity(silent, Cosine(0.95), thresholds) == Verdict("same", "alike")
    assert with_similarity(silent, Cosine(0.5), thresholds) == silent
    assert with_similarity(doubtful, Cosine(0.95), thresholds) == doubtful
    assert with_similarity(doubtful, Cosine(0.1), thresholds) == Verdict("different", "unlike")
    known = Verdict("same", "equal")
    assert with_similarity(known, Cosine(0.1), thresholds) == known


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80), st.text(max_size=80), st.text(max_size=30))
def test_takes_any_text(one: str, other: str, question: str) -> None:
    """No text breaks it, an answer agrees with itself, and the order of answers is all one."""
    assert compare(one, one, question).agreement == "same"
    assert compare(one, other, question).agreement == compare(other, one, question).agreement


_PARTS = st.sampled_from(
    [
        *(
            "yes",
            "no",
            "5",
            "5 km",
            "5000 m",
            "$",
            "2024-01-02",
            "03/04/2025",
            "not",
            "but",
            "every",
        ),
        *("- a\n", "1. b\n", "```\n", "x = 1\n", "{", "}", '"a"', ":", "[1, 2]", "**", "`ls`"),
        *("the answer is ", "sure, ", "\n", ". ", "Paris", "London", "let me know", "first", "he"),
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_PARTS, max_size=12), st.lists(_PARTS, max_size=12), st.sampled_from(" \n"))
def test_takes_any_mixture(one: list[str], other: list[str], between: str) -> None:
    """No mixture of what answers are made of breaks it or depends on the order."""
    left, right = between.join(one), between.join(other)
    assert compare(left, right).agreement == compare(right, left).agreement


def test_takes_json_that_nests_in_strings() -> None:
    """JSON inside the strings of JSON is compared as well."""
    one = json.dumps({"a": json.dumps({"b": 1, "c": 2})})
    other = json.dumps({"a": json.dumps({"c": 2.0, "b": 1})})
    assert compare(one, other) == Verdict("same", "json")


def test_words_that_change_places_around_a_relation_leave_doubt() -> None:
    """The same words in another order around a word that orders them are not surely the same."""
    verdict = compare("red blue no", "blue red no")
    assert (verdict.agreement, verdict.how) == ("unsure", "order")
