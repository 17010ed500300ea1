"""``confide tune risk``: the largest budget under which beliefs rise no further than a profile allows."""

from __future__ import annotations

from typing import Annotated

import typer

from confide.cli.show import Json, out, show_answer, table
from confide.cli.tune_targets import Delta
from confide.lab.risk import RiskTuning
from confide.lab.risk import tune_risk as answer_tune
from confide.report.render import up


def risk(
    profile: Annotated[
        list[str],
        typer.Option("--profile", metavar="PROFILE", help='Such as "posterior<=3*prior"; repeatable, all must hold.'),
    ],
    delta: Delta = "1e-10",
    as_json: Json = False,
) -> None:
    """The largest rho for which posterior-to-prior ratios keep a profile, for all priors; and which side binds."""
    answer = answer_tune(profile, delta=delta)
    show_answer(answer, lambda: _show_risk(answer), as_json=as_json)


def _show_risk(answer: RiskTuning) -> None:
    rows = [
        (side.limit.text, side.name, "→ 0" if not side.prior else f"{side.prior:.3g}", f"{side.rho:.4f}")
        for side in answer.sides
    ]
    table(["profile", "side", "binding prior ", "largest rho "], rows)
    epsilon = up(answer.as_dict()["epsilon"]["canonne_kamath_steinke"], 2)
    out.print(
        f"\nrho = {float(answer.rho):g} (epsilon {epsilon} at delta {float(answer.delta):g}): "
        f"{answer.binding.name} side binds. It holds for {answer.as_dict()['holds_for']}."
    )
