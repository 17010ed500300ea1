"""What SafeTab draws and nobody sees, held against its plan: the first noise, and the empty groups that are published.

Keys are fixed, so every audit here gives the same answer each time. Right code fails one with a probability of one in a
million.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.kits.safetab import level_of, noise_source

from confide.mechanisms.safetab import audit as declared
from confide.mechanisms.safetab import measure
from confide.mechanisms.safetab.audit import LevelDraws
from confide.mechanisms.safetab.evaluate import TrueGroups
from confide.mechanisms.safetab.problem import GroupLevel, is_sparse
from confide.mechanisms.safetab.settings import CHOICE, TOTAL_TABLE
from confide.noise import DiscreteGaussian, sparse
from confide.releases.noise_audit import NoiseAudit, audit
from confide.releases.noise_audit.laws import law_mass, survival, tails
from confide.releases.plan import Plan
from confide.releases.replay import HIDDEN, ChoiceLaw, Residuals, SurvivorLaw

UNPRICED = Plan.without_loss("safetab", {})
LEVEL = level_of(areas=400, iterations=40, steps=(30, 60, 120), suppression=Fraction("0.99"))


def residuals_of(level: GroupLevel = LEVEL, occupied: int = 4_000, *, key: bool = True) -> list[Residuals]:
    """What a level draws for made-up groups of 1 to 59 persons, all in one cell."""
    chosen = np.random.default_rng(1)
    groups = np.sort(chosen.choice(level.groups, occupied, replace=False)).astype(np.int64)
    sizes, cell = chosen.integers(1, 60, occupied), np.full(occupied, 7)
    rows = pa.table({"part": np.zeros(occupied, np.int64), "group": groups, "cell": cell, "n": sizes})
    found = measure.measure_groups(level, noise_source(1))(0, rows)
    truth = TrueGroups(groups, cell, sizes)
    return list(LevelDraws.of(level, truth, found, noise_source(1) if key else None).arrays())


def audited(arrays: list[Residuals]) -> NoiseAudit:
    return audit({"study": (UNPRICED, arrays)})


def failed(answer: NoiseAudit) -> dict[str, str]:
    return {check.name: check.detail for check in answer.checks if not check.ok}


def by_query(arrays: list[Residuals]) -> dict[str, Residuals]:
    return {array.query.removeprefix("detailed: "): array for array in arrays}


# The laws


def test_a_choice_has_the_probabilities_of_both_stages() -> None:
    """By adding up the joint law of both draws, outcome by outcome."""
    first, second = DiscreteGaussian(6), DiscreteGaussian(2)
    law = ChoiceLaw(first, (-1, 2, 3), second, 1)
    expected = dict.fromkeys(range(HIDDEN, 4), 0.0)
    for x in range(-40, 41):
        level = sum(x >= cut for cut in law.cuts)
        for y in range(-30, 31):
            expected[HIDDEN if level == 0 and y <= 1 else level] += first.pmf(x) * second.pmf(y)
    np.testing.assert_allclose(law_mass(law).at, list(expected.values()), atol=1e-12)
    assert survival(SurvivorLaw(9, law)) == pytest.approx(1 - expected[HIDDEN])
    np.testing.assert_allclose(law_mass(ChoiceLaw(first, (-1, 2, 3))).at[0], 0)


def test_survivors_are_binomial() -> None:
    law = SurvivorLaw(30, ChoiceLaw(DiscreteGaussian(6), (5, 9, 20), DiscreteGaussian(2), 3))
    chance, x = survival(law), np.arange(31)
    below, at, over = tails(law, x)
    expected = np.array([1.0])
    for _ in range(30):
        expected = np.convolve(expected, [1 - chance, chance])
    np.testing.assert_allclose(at, expected, atol=1e-13)
    np.testing.assert_allclose(below + at + over, 1)


# Right code


@pytest.mark.parametrize("way", ["as survivors", "one by one"])
@pytest.mark.parametrize("key", [True, False], ids=["with the key", "without the key"])
def test_both_stages_are_as_planned(way: str, key: bool) -> None:
    level = LEVEL if way == "as survivors" else level_of(areas=120, iterations=40, steps=(30, 60, 120))
    level = level if way == "as survivors" else replace(level, suppressed_up_to=None)
    assert is_sparse(level) == (way == "as survivors")
    arrays = residuals_of(level, key=key)
    answer = audited(arrays)
    assert answer.ok, failed(answer)
    named = by_query(arrays)
    assert ("choice of table, first noise" in named) == key
    assert ("choice of table, published empty groups" in named) == (way == "as survivors")
    choices = named["choice of table"]
    if way == "one by one":
        # Empty groups are drawn too, and are looked at.
        assert len(choices.noise) == level.groups
        assert not (choices.noise == HIDDEN).any()
    else:
        assert len(choices.noise) == 4_000
        survivors = named["choice of table, published empty groups"]
        assert int(survivors.noise.sum()) == len(named["choice of table, tables of empty groups"].noise) > 250
        assert sum(survivors.laws[int(law)].trials for law in np.ravel(survivors.law_of)) == level.groups - 4_000  # type: ignore[union-attr]


def test_what_could_not_be_seen_is_said() -> None:
    """With the key more is seen than without; with few groups next to nothing."""
    seen = {key: audited(residuals_of(key=key)) for key in (True, False)}
    least = {key: answer.smallest_by_stage["stage 1"] for key, answer in seen.items()}
    assert least[True] is not None
    assert least[False] is not None
    assert 0.03 < least[True] <= least[False]
    assert f"off by {100 * least[True]:g} %" in " ".join(seen[True].notes)
    few = audited(residuals_of(level_of(areas=3, iterations=10, steps=(30, 60, 120)), 20))
    assert few.smallest_by_stage == {"stage 1": None}
    assert any(note.startswith("Of stage 1 alone, too few draws") for note in few.notes)


# Wrong code


def wrong_scale(by: str) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        real = measure.noise_at

        def drawn(law: Any, *place: Any) -> Any:
            return real(DiscreteGaussian(law.sigma2 * Fraction(by) ** 2) if law == LEVEL.first else law, *place)

        patch.setattr(measure, "noise_at", drawn)

    return plant


def reused_stream(patch: pytest.MonkeyPatch) -> None:
    real = measure.measure_groups

    def wrong(level: GroupLevel, noise: Any) -> Any:
        right = real(level, noise)
        return replace(right, streams={**right.streams, CHOICE: right.streams[TOTAL_TABLE]})

    patch.setattr(measure, "measure_groups", wrong)


def narrow_rule(patch: pytest.MonkeyPatch) -> None:
    real = measure.empty_rule
    patch.setattr(
        measure,
        "empty_rule",
        lambda level: real(replace(level, first=DiscreteGaussian(level.first.parameter * Fraction("0.5")))),
    )


def first_places(patch: pytest.MonkeyPatch) -> None:
    real = measure.draw_survivors

    def wrong(*given: Any) -> Any:
        drawn = real(*given)
        return type(drawn)(np.arange(len(drawn)), drawn.levels, drawn.values)

    patch.setattr(measure, "draw_survivors", wrong)


def too_many_survivors(patch: pytest.MonkeyPatch) -> None:
    """In the sampler itself: who draws again gets the same."""
    real = sparse._survival
    patch.setattr(sparse, "_survival", lambda rule, bits: tuple(b * Fraction("1.4") for b in real(rule, bits)))
    patch.setattr(sparse, "_levels", lambda rule: sparse.Inverse.prepare(lambda bits: sparse.level_steps(rule, bits)))


POSSIBLE, SCALE, SHAPE = "draws are possible", "the scale of the noise", "the shape of the noise"
BUGS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], bool, str, str]] = {
    "a scale of stage 1 that is 3 % too small": (wrong_scale("0.97"), True, POSSIBLE, "first noise"),
    "a scale of stage 1 that is 3 % too large": (wrong_scale("1.03"), True, POSSIBLE, "first noise"),
    "a scale of stage 1 that is 20 % too small, without the key": (wrong_scale("0.8"), False, SCALE, "choice of table"),
    "the stream of stage 2 in stage 1": (reused_stream, True, POSSIBLE, "first noise"),
    "the stream of stage 2 in stage 1, without the key": (reused_stream, False, SHAPE, "T01001"),
    "survivors of another law": (narrow_rule, True, POSSIBLE, "empty groups as drawn"),
    "survivors of another law, without the key": (narrow_rule, False, SCALE, "published empty groups"),
    "survivors at the first places": (first_places, False, SHAPE, "published empty groups"),
    "too many survivors by the sampler": (too_many_survivors, True, SCALE, "published empty groups"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_mistake_is_noticed(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, key, check, where = BUGS[bug]
    plant(monkeypatch)
    wrong = failed(audited(residuals_of(key=key)))
    assert check in wrong
    assert where in wrong[check]


def test_the_number_of_survivors_is_looked_at_by_itself() -> None:
    """Forty too many in each of 64 stretches, of 400 on average: no stretch is remarkable, all together are."""
    law = SurvivorLaw(10_000, ChoiceLaw(DiscreteGaussian(100), (18, 30, 60), DiscreteGaussian(20), 11))
    mean = round(10_000 * survival(law))
    for more, right in ((0, True), (40, False)):
        found = np.random.default_rng(3).binomial(10_000, survival(law), (64, 1)) + more
        answer = audited([Residuals("COUNTY", "published empty groups", found, (law,), "measured")])
        assert ("small laws, value by value" not in failed(answer)) == right
    assert mean > 300


@pytest.mark.slow
@pytest.mark.parametrize("by", ["0.97", "1.03"])
def test_a_sampler_whose_scale_is_three_per_cent_off_is_noticed(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing again agrees with what was drawn, so that only the law of 60,000 draws tells."""
    level = level_of(areas=3_000, iterations=40, steps=(30, 60, 120), suppression=Fraction("0.99"))
    right = audited(residuals_of(level, 60_000))
    assert right.ok
    assert right.smallest_by_stage["stage 1"] == 0.025
    wrong_scale(by)(monkeypatch)
    real = declared.draw_at
    wrong = DiscreteGaussian(level.first.parameter * Fraction(by) ** 2)
    monkeypatch.setattr(declared, "draw_at", lambda law, *place: real(wrong, *place))
    found = set(failed(audited(residuals_of(level, 60_000))))
    assert SCALE in found
    assert POSSIBLE not in found
