"""Points for pictures of the risks: heat maps and curves as plain rows."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from confide.risk.bounded_noise.bound import grid
from confide.risk.bounded_noise.small_areas import bound_for_epsilon, epsilon_for_bound
from confide.risk.bounded_noise.success import LEVEL, Model, laplace_epsilon, success_probability, variance_needed

Rows = list[dict[str, Any]]
VARIANCES = tuple(Fraction(step, 2) for step in range(1, 21))
BOUNDS = tuple(range(1, 16))
RATIOS = (0.001, 1.0)
ACROSS = 36


def bound_grid(level: float = LEVEL) -> Rows:
    """m for V = 0.5 to 10 and D = 1 to 15 (Figure 1)."""
    return grid(BOUNDS, VARIANCES, level)


def success_cells(parameter: str, low: float, high: float) -> Rows:
    """The probability α over k/t² and the variance, or the ε of Laplace noise, on logarithmic scales (Figure 2)."""
    found = []
    for x, x2 in _steps(*RATIOS):
        for y, y2 in _steps(low, high):
            middle = (y * y2) ** 0.5
            variance = middle if parameter == "variance" else 2 / middle**2
            alpha = success_probability(variance, (x * x2) ** 0.5)
            found.append({"x": x, "x2": x2, "y": y, "y2": y2, "alpha": alpha})
    return found


def success_contours(parameter: str, level: float = LEVEL) -> Rows:
    """The contour of one probability, by the Gaussian model and by Chebyshev's inequality."""
    names = {Model.GAUSSIAN: f"{level:.0%}, Gaussian model", Model.CHEBYSHEV: f"{level:.0%}, Chebyshev"}
    found = []
    for model, name in names.items():
        for x in (*(step[0] for step in _steps(*RATIOS)), RATIOS[1]):
            variance = variance_needed(x, level, model)
            y = variance if parameter == "variance" else laplace_epsilon(variance)
            found.append({"x": x, "y": y, "model": name})
    return found


def epsilon_curves(areas: Mapping[str, int], level: float = LEVEL) -> Rows:
    """ε over the bound, one curve for each number of areas (Figure 5)."""
    return [
        {"name": f"{name} ({number:,} areas)", "bound": bound, "epsilon": epsilon_for_bound(bound, number, level)}
        for name, number in areas.items()
        for bound in (5, 7, 10, 14, 20, 28, 40, 56, 80, 100)
    ]


def bound_curve(areas: int, level: float = LEVEL) -> Rows:
    """The bound over ε for one number of areas (Figure 6, right)."""
    steps = [Fraction(step, 100) for step in (5, 7, 10, 14, 20, 28, 40, 56, 80, 100, 150)]
    return [{"epsilon": float(step), "bound": bound_for_epsilon(step, areas, level)} for step in steps]


def _steps(low: float, high: float) -> list[tuple[float, float]]:
    factor = (high / low) ** (1 / ACROSS)
    return [(low * factor**place, low * factor ** (place + 1)) for place in range(ACROSS)]
