"""What guards and features say of thousands of pairs, as one number.

The shipped prior was trained on these features. Whoever changes them on purpose trains it anew
(bench/train_prior.py) and writes the new number here; whoever makes them quicker does neither.
"""

from __future__ import annotations

import hashlib
from random import Random

import numpy as np
import pytest
from bench.questions import asked, reworded

from askonce.trust import alignment, differences, features
from askonce.trust.text.comparison import compare
from askonce.trust.text.guards import verdicts
from askonce.trust.text.reading import analyse

KNOWN = "4558e8844e0bfbb3723ae64040e73130"

_LETTERS = "aAbBeE1I2.,!?'\"`()-_/\\:;éß\u2019日½²€%$+*=<>[]{}@# \n\t"
_TWISTS = (
    "not", "12", "3 mW", "re-sign", "man-eating", '"quoted"', "`code`", "f(x)", "12:30 pm", "MB",
    "Paris's", "isn't", "U.S.", "C++", "user_id", "a", "only", "mother of", "twenty one", "and",
    "how many letters in", "spell", "the variable", "--force", "HTTP", "one", "1,000", "whose",
)  # fmt: skip


def _pairs() -> list[tuple[str, str]]:
    random = Random(7)
    pairs = []
    for _ in range(1200):
        text = asked(random)
        pairs.append((text, reworded(text, random)))
        pairs.append((text, _twisted(text, random)))
        pairs.append((_twisted(text, random).title(), _twisted(text, random)))
    for _ in range(600):
        noise = "".join(random.choice(_LETTERS) for _ in range(random.randrange(30)))
        pairs.append((noise, noise.replace(random.choice(_LETTERS), random.choice(_LETTERS))))
    return pairs


def _twisted(text: str, random: Random) -> str:
    words = text.split()
    words[random.randrange(len(words))] = random.choice(_TWISTS)
    words.insert(random.randrange(len(words)), random.choice(_TWISTS))
    return " ".join(words)


@pytest.mark.slow
def test_guards_and_features_say_what_they_said_when_the_prior_was_trained() -> None:
    """To the last bit, but for the columns that embedder and cosine fill."""
    digest = hashlib.sha256()
    nothing = np.zeros((1, len(alignment.NAMES)), dtype=np.float32)
    for one, other in _pairs():
        pair = compare(analyse(one), analyse(other))
        row = features.dense([pair], np.zeros(1, dtype=np.float32), nothing)
        digest.update(row.astype("<f4").tobytes())
        digest.update(differences.keys(pair).astype("<i4").tobytes())
        digest.update(" ".join(verdicts(one, other)).encode())
    assert digest.hexdigest()[:32] == KNOWN
