"""``confide risk``: what someone who sees a release can learn from it. No records are read."""

from __future__ import annotations

import typer

from confide.cli.risk_bayes import bayes
from confide.cli.risk_bounded import areas, averaging, bound
from confide.cli.risk_curve import curve
from confide.cli.risk_hierarchy import hierarchy
from confide.cli.risk_invariants import invariants
from confide.cli.risk_release import release

app = typer.Typer(help="What a release lets others learn. No records are read.", no_args_is_help=True)

for command in (bayes, hierarchy, invariants, curve, release, bound, averaging, areas):
    app.command()(command)
