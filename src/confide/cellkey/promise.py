"""What can be said of a release by the cell key method, in words and in figures of its perturbation table.

Nothing here is a privacy loss. The figures compare two counts that differ by one in one cell
(:mod:`confide.cellkey.ptables.reading`); they follow from the table alone, never from records.
"""

from __future__ import annotations

from typing import Any

from confide.cellkey.ptables import NOT_A_PROMISE, PTable, read

IN_WORDS = (
    "The counts of this release are perturbed by the cell key method: each by at most {D}, always by the same amount "
    "for the same members. Counts of nobody are published as they are.{hidden}",
    "No differential privacy is promised, and no budget was spent. The noise is bounded and never changes, so what one "
    "release gives away stays given away. Counts that occur in many tables can be averaged out; from the largest "
    "differences the bound can be seen. How likely both are follows from the tables and the noise: confide risk.",
    "The keys of records, and with them all noise, are secret. Whoever has them has the true counts.",
)


HIDDEN = " What comes out below {threshold:,} is published as zero, however far that is from the count."


def in_words(ptable: PTable, threshold: int | None) -> list[str]:
    """What is promised and what is not."""
    hidden = "" if threshold is None else HIDDEN.format(threshold=threshold)
    return [text.format(D=ptable.largest_noise, hidden=hidden) for text in IN_WORDS]


def single_count(ptable: PTable) -> dict[str, Any] | None:
    """How well two counts that differ by one can be told apart from one cell; None where rows are used in turn."""
    if not ptable.for_counts or ptable.cycle != 1:
        return None
    told = read(ptable).as_dict()
    return {
        "epsilon": _short(told["epsilon"]),
        "delta": _short(told["delta"]),
        "delta_all_counts": _short(told["delta_all_counts"]),
        "worst_counts": [told["worst_pair"], told["worst_pair"] + 1],  # type: ignore[operator]
        "note": NOT_A_PROMISE,
    }


def noise_facts(ptable: PTable) -> dict[str, Any]:
    """The noise of a count that is not zero: its bound, its largest bias, its variance from the smallest to the last
    row."""
    places = range(1, len(ptable.rows))
    variances = [ptable.variance(place) for place in places]
    return {
        "sampler": None,
        "key": "record keys",
        "largest": str(ptable.largest_noise),
        "bias": _short(max(abs(ptable.mean(place)) for place in places)),
        "variance": {"least": _short(min(variances)), "most": _short(max(variances)), "large": _short(variances[-1])},
    }


def _short(value: Any) -> float:
    """Four digits: the same on every machine, whatever the last bit of a logarithm is."""
    return float(f"{float(value):.4g}")
