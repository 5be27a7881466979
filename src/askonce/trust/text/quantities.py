"""Numbers with their units, by value: 1 km is 1,000 m, and 5 kg is not 5 g."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from askonce.trust.text.numbers import numbered
from askonce.trust.text.tokens import tokens

if TYPE_CHECKING:
    from askonce.trust.text.tokens import Token

_TABLE = """
length: 0.001 mm millimeter millimetre|0.01 cm centimeter centimetre|1 m meter metre
length: 1000 km kilometer kilometre|0.0254 inch|0.3048 ft foot feet|0.9144 yard yd|1609.344 mi mile
mass: 0.000001 mg milligram|0.001 g gram|1 kg kilogram kilo|1000 tonne|0.45359237 lb pound
mass: 0.028349523125 oz ounce
time: 0.001 ms millisecond|1 s sec second|60 min minute|3600 h hr hour|86400 day|604800 week
months: 1 month|3 quarter|12 year yr|120 decade|1200 century
bits: 1 byte b|1000 kb kilobyte|1000000 mb megabyte|1000000000 gb gigabyte|1000000000000 tb terabyte
bits: 1024 kib|1048576 mib|1073741824 gib
volume: 0.001 ml milliliter millilitre|1 l liter litre
speed: 1 km/h kmh kph|1.609344 mph
share: 1 % percent pct
celsius: 1 °c celsius centigrade
fahrenheit: 1 °f fahrenheit
kelvin: 1 kelvin
power: 0.001 mw milliwatt|1 watt|1000 kw kilowatt
dollar: 1 $ usd dollar buck|0.01 cent
euro: 1 € eur euro
sterling: 1 £ gbp
yen: 1 ¥ jpy yen
rupee: 1 ₹ inr rupee
"""


def _units() -> dict[str, tuple[str, float]]:
    table: dict[str, tuple[str, float]] = {}
    for line in _TABLE.strip().splitlines():
        dimension, _, groups = line.partition(": ")
        for group in groups.split("|"):
            factor, *names = group.split()
            for name in names:
                table[name] = (dimension, float(factor))
                if len(name) > 2 and name.isalpha():
                    table[name + "s"] = (dimension, float(factor))
    return table | {"inches": ("length", 0.0254), "in": ("length", 0.0254)}


UNITS = _units()
"""Dimension, and factor to that dimension's base, by name."""

MOST_DIGITS = 15
_BEFORE = frozenset("$€£¥₹")


class Quantity(msgspec.Struct, frozen=True):
    """A number with its unit."""

    written: float
    factor: float
    """To the dimension's base unit; 1 without a unit."""
    dimension: str
    """Empty without a unit."""
    digits: int
    """Significant digits as written."""

    @property
    def value(self) -> float:
        """In the base unit."""
        return self.written * self.factor

    def equals(self, other: Quantity) -> bool:
        """The same value, in a unit of the same kind or in none on one side."""
        if self.dimension and other.dimension and self.dimension != other.dimension:
            return False
        if self.factor == other.factor or not (self.dimension and other.dimension):
            return self.written == other.written
        return abs(self.value - other.value) <= 1e-9 * abs(self.value)

    def rounds(self, other: Quantity) -> bool:
        """One is the other with fewer digits."""
        digits = min(self.digits, other.digits)
        return (
            self.dimension == other.dimension
            and self.digits != other.digits
            and f"{self.value:.{digits}g}" == f"{other.value:.{digits}g}"
        )


def quantities(plain: str) -> tuple[tuple[Quantity, ...], tuple[str, ...]]:
    """All quantities of a normalised text in order, and its other tokens."""
    found = numbered(tokens(plain))
    values: list[Quantity] = []
    others: list[str] = []
    place = 0
    while place < len(found):
        token = found[place]
        if token.kind == "number" and _is_plain(token.text):
            after = found[place + 1].text if place + 1 < len(found) else ""
            unit = after if after in UNITS else _take_symbol(others)
            values.append(_quantity(token.text, unit, negative=_take_minus(found, place, others)))
            place += 1 + (unit == after and bool(unit))
        else:
            others.append(token.text)
            place += 1
    return tuple(values), tuple(others)


def _is_plain(text: str) -> bool:
    """Whether a float holds all of the number's digits."""
    return len(text) <= MOST_DIGITS and text.replace(".", "", 1).isdecimal()


def _take_symbol(others: list[str]) -> str:
    return others.pop() if others and others[-1] in _BEFORE else ""


def _take_minus(found: list[Token], place: int, others: list[str]) -> bool:
    if place and found[place - 1].text == "-" and others and others[-1] == "-":
        others.pop()
        return True
    return False


def _quantity(text: str, unit: str, *, negative: bool) -> Quantity:
    dimension, factor = UNITS.get(unit, ("", 1.0))
    written = -float(text) if negative else float(text)
    digits = len(text.replace(".", "").strip("0")) or 1
    return Quantity(written, factor, dimension, digits)
