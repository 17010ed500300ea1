"""The noise of magnitude tables: sums of values, perturbed in proportion to the largest contributions of a cell.

For a cell with the value z and the largest contributions x_1 ≥ x_2 ≥ … ≥ x_k, without their signs,

    step      d_j = x_j · m(x_j) · e_j           m(x) = p_small up to the flex point fp, then p_large + … (see share)
    place     a = min(|z| / d_j, last row)
    noise     v from the row a of the perturbation table and the cell's key, between two rows in proportion
    shift     z becomes sign(z) · max(0, |z| + d_j · sign(v) · (mu_c + |v|)),   mu_c in sensitive cells only

one contribution after the other, each with the digits of the cell key moved by one place. A cell whose largest
contribution is below the separation point z_s, with z_s² = m₁² / (p_small² · Σ e_j²), has steps of 1 and a table of its
own, whose last row has the variance m₁². All of it is in whole numbers and fractions: no rounding but the last, to the
declared decimals. What is promised and what is not: ``docs/proofs/cellkey.md``, section 5.

References: Giessing & Tent, "Concepts for generalising tools implementing the cell key method to the case of continuous
variables", UNECE 2019; the R package ``cellKey``, whose flexible function ``share`` is.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.arrays import Integers
from confide.errors import Finding, SpecError
from confide.mechanisms.cellkey.keys import CellSums, CellValues
from confide.mechanisms.cellkey.spec import MagnitudePart, NoiseTablePart
from confide.noise import ReleaseKey, derive_stream
from confide.noise.ptables import PTable, generate, magnitude_settings, read_table
from confide.noise.ptables.ptable import permutation
from confide.releases.spec import LoadedSpec

PIECES = 100
ORDER = b"confide/cellkey/key-order/v1"
RULE_CONTRIBUTIONS = 2
"""The p % rule looks at the two largest contributions."""


@dataclass(frozen=True, eq=False)
class MagnitudeNoise:
    """The perturbation tables of magnitudes, and what the noise of a sum is in proportion to."""

    part: MagnitudePart
    tables: Mapping[str, PTable]
    """``noise``, or ``even`` and ``odd``; and ``small``, if small cells have a table of their own."""
    decimals: int
    modulus: int
    shuffle: ReleaseKey | None = None
    """What the order follows from in which keys are looked up; None: as they are."""

    @property
    def top(self) -> int:
        """How many of the largest contributions have to be known."""
        rule = self.part.sensitive is not None and self.part.sensitive.p is not None
        return max(len(self.part.factors), RULE_CONTRIBUTIONS if rule else 1)

    @property
    def unit(self) -> int:
        """Published figures are whole numbers of 1/unit."""
        return int(10**self.decimals)

    @cached_property
    def separation_squared(self) -> Fraction:
        """The square of the separation point: contributions below it are small. Zero without a table for them."""
        if "small" not in self.tables:
            return Fraction(0)
        small = self.tables["small"]
        squares = sum((factor**2 for factor in self.part.factors), Fraction(0))
        return small.variance(len(small.rows) - 1) / (self.part.p_small**2 * squares)

    @property
    def largest_share(self) -> Fraction:
        """By what share of itself a cell of values without signs can change, small cells aside."""
        steps = max(table.largest_noise for name, table in self.tables.items() if name != "small")
        return self.part.p_small * sum(self.part.factors, Fraction(0)) * (steps + (self.part.mu_c or 0))

    @property
    def largest_small(self) -> Fraction:
        """By how much a small cell can change."""
        small = self.tables.get("small")
        return Fraction(0) if small is None else small.largest_noise + (self.part.mu_c or 0)

    def share(self, x: Fraction) -> Fraction:
        """The share m(x) of a contribution that a step of noise is: ``p_small`` up to the flex point, from there on

            m(x) = p_large · (1 + (p_small·x − p_large·fp) / (p_large·fp) · (2·fp / (fp + x))^q),

        which falls from ``p_small`` to ``p_large``."""
        part = self.part
        if part.fp is None or part.p_large is None or x < part.fp:
            return part.p_small
        rise = (part.p_small * x - part.p_large * part.fp) / (part.p_large * part.fp)
        return part.p_large * (1 + rise * (2 * part.fp / (part.fp + x)) ** part.q)

    def facts(self) -> Mapping[str, Any]:
        """What is in the plan."""
        part = self.part
        return {
            "decimals": self.decimals,
            "keys": self.modulus,
            "tables": {
                name: {"sha256": table.fingerprint, "D": str(table.largest_noise)}
                for name, table in self.tables.items()
            },
            **part.model_dump(mode="json", exclude={"noise", "even", "odd", "small"}),
            "largest_share": str(self.largest_share),
            "largest_small": str(self.largest_small),
        }

    def perturb(self, sums: CellSums, scale: int) -> Integers:
        """The published values of cells, in whole numbers of ``1 / unit``.

        Args:
            sums: Members, keys and values of every cell.
            scale: How many units of the sums are one: contributions are whole numbers of 1/scale.
        """
        assert sums.value is not None
        keys = self._keys(sums.key)
        noise = {name: _noise_by_row(table, keys) for name, table in self.tables.items()}
        published = np.zeros(len(sums.cell), np.int64)
        sensitive = self._sensitive(sums.count, sums.value)
        for at in np.flatnonzero(sums.value.total).tolist():
            own = "noise" if "noise" in self.tables else ("even", "odd")[int(sums.count[at]) % 2]
            value = Fraction(int(sums.value.total[at]), scale)
            mu = self.part.mu_c if sensitive[at] else None
            here = {name: [row[:, at] for row in rows] for name, rows in noise.items()}
            exact = self._cell(value, self._contributions(sums, at, scale), own, here, mu or Fraction(0))
            published[at] = _rounded(exact * self.unit)
        return published

    def _cell(
        self,
        value: Fraction,
        contributions: Sequence[Fraction],
        own: str,
        noise: Mapping[str, Sequence[Integers]],
        mu: Fraction,
    ) -> Fraction:
        """The value of one cell after its noise. ``own`` names its table; ``noise`` has for every table, and the key of
        each contribution, the noise of every row."""
        sign, size = (-1 if value < 0 else 1), abs(value)
        for number, (x, factor) in enumerate(zip(contributions, self.part.factors, strict=True)):
            small = x * x < self.separation_squared
            if not size or not x or (small and number):
                continue
            step = Fraction(1) if small else x * self.share(x) * factor
            name = "small" if small else own
            v = between_rows(self.tables[name], size / step, noise[name][number])
            if v:
                size = max(Fraction(0), size + step * (v + mu if v > 0 else v - mu))
        return sign * size

    def _contributions(self, sums: CellSums, at: int, scale: int) -> list[Fraction]:
        """What the noise of a cell is in proportion to."""
        assert sums.value is not None
        values, kind = sums.value, self.part.contributions
        if kind == "largest":
            return [Fraction(int(x), scale) for x in values.largest[at, : len(self.part.factors)]]
        total = abs(Fraction(int(values.total[at]), scale))
        if kind == "mean":
            return [total / int(sums.count[at])]
        return [total] if kind == "sum" else [Fraction(int(values.greatest[at]) - int(values.least[at]), scale)]

    def _sensitive(self, count: Integers, values: CellValues) -> npt.NDArray[np.bool_]:
        rule = self.part.sensitive
        flags = np.zeros(len(count), np.bool_)
        if rule is None:
            return flags
        if rule.threshold is not None:
            flags |= count <= rule.threshold
        if rule.p is not None:
            for at in np.flatnonzero(~flags).tolist():
                first, second = (int(x) for x in values.largest[at, :RULE_CONTRIBUTIONS])
                flags[at] = 100 * (int(values.total[at]) - first - second) < rule.p * first
        return flags

    def _keys(self, key: Integers) -> list[Integers]:
        """The keys of all contributions: digits moved by one for each further one, then in another order."""
        keys, digits = [key], len(str(self.modulus)) - 1
        for _ in self.part.factors[1:]:
            keys.append(moved(keys[-1], digits))
        order = self._order
        if order is None:
            return keys
        size = max(1, self.modulus // PIECES)
        pieces = self.modulus // size
        return [
            np.where(k < pieces * size, order[np.minimum(k // size, pieces - 1)] * size + k % size, k) for k in keys
        ]

    @cached_property
    def _order(self) -> Integers | None:
        """The order of pieces of keys. All rows of a table share it: what is between two rows is of one key."""
        if self.shuffle is None:
            return None
        digest = hashlib.sha256("".join(table.fingerprint for table in self.tables.values()).encode()).digest()
        stream = derive_stream(
            self.shuffle,
            records_fingerprint=digest,
            plan_hash=ORDER,
            mechanism="cellkey",
            level="ptable",
            query="keys",
        )
        size = max(1, self.modulus // PIECES)
        return np.array(permutation(self.modulus // size, stream), np.int64)


def moved(keys: Integers, digits: int) -> Integers:
    """Keys of so many decimal digits with their first digit put to the end.

    >>> moved(np.array([12345678, 7]), 8)
    array([23456781,       70])
    """
    last = 10 ** (digits - 1)
    result: Integers = keys % last * 10 + keys // last
    return result


def between_rows(table: PTable, place: Fraction, noise: Sequence[int] | Integers) -> Fraction:
    """The noise at a place between two rows, in proportion; beyond the last row its own.

    Args:
        table: The perturbation table.
        place: Where, from zero on: rows stand at their counts.
        noise: The noise of the cell's key in every row, in units of ``1 / step``.

    Returns:
        The noise. It is not below ``-place``, as no row ``i`` has noise below ``-i``.
    """
    rows = [row.i for row in table.rows]
    if place >= rows[-1]:
        return Fraction(int(noise[-1]), table.step)
    at = bisect_right(rows, place) - 1
    part = (place - rows[at]) / (rows[at + 1] - rows[at])
    return (int(noise[at]) + part * (int(noise[at + 1]) - int(noise[at]))) / table.step


def _noise_by_row(table: PTable, keys: Sequence[Integers]) -> list[Integers]:
    """For the key of each contribution the noise in every row: an array of rows by cells."""
    return [
        np.stack([table.lookup_rows(np.full(len(key), place), key) for place in range(len(table.rows))]) for key in keys
    ]


def _rounded(number: Fraction) -> int:
    """To the nearest whole number, halves away from zero: a value and its negative are rounded alike."""
    size = (2 * abs(number.numerator) + number.denominator) // (2 * number.denominator)
    return size if number > 0 else -size


def magnitude_noise(
    loaded: LoadedSpec,
    part: MagnitudePart,
    decimals: int,
    keys: int,
    shuffle: ReleaseKey | None,
    warnings: list[Finding],
) -> MagnitudeNoise:
    """The noise that a part of a spec describes; what is to be known about its tables is added to ``warnings``."""
    tables = dict(_tables(loaded, part, keys, warnings))
    return MagnitudeNoise(part, tables, decimals, keys, shuffle)


def _tables(
    loaded: LoadedSpec, part: MagnitudePart, keys: int, warnings: list[Finding]
) -> Iterator[tuple[str, PTable]]:
    for name in ("noise", "even", "odd", "small"):
        asked: NoiseTablePart | None = getattr(part, name)
        if asked is None:
            continue
        if asked.ptable is None:
            assert asked.D is not None
            assert asked.V is not None
            rows = asked.icat or sorted({1, asked.D})
            design = generate(magnitude_settings(asked.D, asked.V, step=asked.step, icat=rows))
            warnings += design.findings()
            yield name, design.table(keys)
            continue
        read = read_table(loaded.resolve(asked.ptable), name if name in ("even", "odd") else "all")
        warnings += [finding for finding in read.findings if finding.severity == "warning"]
        if read.table.modulus != keys or read.table.cycle != 1:
            raise SpecError(
                "unfit-ptable/perturbation-table-fit",
                where=loaded.place("magnitude", name, "ptable"),
                modulus=read.table.modulus,
                keys=keys,
            )
        yield name, read.table
