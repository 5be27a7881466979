"""The prior that ships."""

from __future__ import annotations

import msgspec
import pytest

from askonce.lab.prior import directions
from askonce.trust import features, prior


def test_the_shipped_prior_fits_the_features() -> None:
    """One coefficient a column; a change of the columns needs a new prior."""
    shipped = prior.shipped()
    assert len(shipped.mean) == len(shipped.scale) == len(features.NAMES)
    assert len(shipped.pair.centre) == len(shipped.pair.precision) == len(prior.PAIR_NAMES)
    assert len(shipped.answer.centre) == len(shipped.answer.precision) == len(prior.ANSWER_NAMES)
    assert min(shipped.scale) > 0


def test_no_column_speaks_against_its_meaning() -> None:
    """Likeness never counts against one answer, nor a guard's verdict for it."""
    for way, coefficient in zip(directions(), prior.shipped().pair.centre, strict=False):
        assert way * coefficient >= 0
        assert way != 0 or coefficient == 0


def test_a_prior_of_other_columns_or_version_is_refused() -> None:
    """Coefficients are never read against the wrong columns."""
    shipped = prior.shipped()
    renamed = msgspec.structs.replace(shipped.pair, names=["other", *shipped.pair.names[1:]])
    for wrong in (
        msgspec.structs.replace(shipped, version=0),
        msgspec.structs.replace(shipped, pair=renamed),
    ):
        with pytest.raises(ValueError, match="train it again"):
            prior.parse(msgspec.json.encode(wrong))
