"""Confide: a disclosure avoidance system for official statistics.

The verbs are functions here, and every command has its twin among them; the nouns are classes. All are loaded when
first used.

=============  ==============================================================================================
a release      ``new`` ``new_schema`` ``check`` ``rehearse`` ``run`` ``verify`` ``evaluate`` ``replay``
               ``destroy_key`` ``json_schema`` ``new_signature_key`` ``sign_release``
its budget     ``open_ledger`` ``Ledger`` ``reconcile`` ``account_release`` ``account_strategy``
tables         ``open_release`` ``suppress``
how far off    ``open_source`` ``infer`` ``replicate``
in memory      ``tabulate`` ``protect`` ``give_record_keys`` ``perturb_cells`` ``swap_records``
               ``suppress_tables``
choosing       ``epsilon_of_rho`` ``rho_of_epsilon`` ``compare_noise`` ``perturbation_table`` ``tune_safetab``
               ``tune_cellkey`` ``tune_topdown`` ``tune_tables`` ``tune_risk``
               ``tune_board``
what is left   ``risk.bayes`` ``risk.hierarchy`` ``risk.curve`` …  ``reconstruct`` ``reidentify_files``
               ``attack_arithmetic`` ``audit_suppression`` ``audit_privacy`` ``audit_canaries``
               ``compare`` ``Published``
made up        ``simulate`` ``demo``
=============  ==============================================================================================

>>> import confide
>>> "tabulate" in dir(confide), confide.epsilon_of_rho("1/2", "1e-10").as_dict()["canonne_kamath_steinke"] > 6
(True, True)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from confide.version import __version__ as __version__

if TYPE_CHECKING:
    from confide.api import audit_noise as audit_noise
    from confide.api import check as check
    from confide.api import destroy_key as destroy_key
    from confide.api import evaluate as evaluate
    from confide.api import json_schema as json_schema
    from confide.api import new as new
    from confide.api import new_schema as new_schema
    from confide.api import new_signature_key as new_signature_key
    from confide.api import perturb_cells as perturb_cells
    from confide.api import reconcile as reconcile
    from confide.api import replay as replay
    from confide.api import run as run
    from confide.api import sign_release as sign_release
    from confide.api import synthesize as synthesize
    from confide.api import verify as verify
    from confide.attacks import audit_suppression as audit_suppression
    from confide.attacks import reconstruct as reconstruct
    from confide.attacks import reidentify_files as reidentify_files
    from confide.comparison import compare as compare
    from confide.demonstration import demo as demo
    from confide.in_memory import open_ledger as open_ledger
    from confide.in_memory import protect as protect
    from confide.in_memory import tabulate as tabulate
    from confide.inference import infer as infer
    from confide.inference import open_source as open_source
    from confide.inference import replicate as replicate
    from confide.inference.tuning import tune_topdown as tune_topdown
    from confide.inputs.pl94 import import_pl94 as import_pl94
    from confide.mechanisms import MECHANISMS as MECHANISMS
    from confide.mechanisms.cellkey.cellkey_answers import give_record_keys as give_record_keys
    from confide.mechanisms.cellkey.verify import attack_arithmetic as attack_arithmetic
    from confide.mechanisms.safetab.tuning import tune_safetab as tune_safetab
    from confide.mechanisms.suppression import suppress_tables as suppress_tables
    from confide.mechanisms.swapping import swap_records as swap_records
    from confide.mechanisms.tables.tuning import tune_tables as tune_tables
    from confide.mechanisms.topdown.strategy_file import account_strategy as account_strategy
    from confide.noise import DiscreteGaussian as DiscreteGaussian
    from confide.noise import NoiseStream as NoiseStream
    from confide.noise import ReleaseKey as ReleaseKey
    from confide.noise import TwoSidedGeometric as TwoSidedGeometric
    from confide.noise.ptables.ptable_answer import perturbation_table as perturbation_table
    from confide.opened import open_release as open_release
    from confide.population import simulate as simulate
    from confide.privacy import ZCDP as ZCDP
    from confide.privacy import ApproxDP as ApproxDP
    from confide.privacy import PureDP as PureDP
    from confide.rehearsal import rehearse as rehearse
    from confide.releases.ledger import Ledger as Ledger
    from confide.releases.loss_account import account_release as account_release
    from confide.releases.loss_account import epsilon_of_rho as epsilon_of_rho
    from confide.releases.loss_account import rho_of_epsilon as rho_of_epsilon
    from confide.releases.mechanism import Mechanism as Mechanism
    from confide.releases.plan import Plan as Plan
    from confide.releases.published import Published as Published
    from confide.risk import audit_canaries as audit_canaries
    from confide.risk import audit_privacy as audit_privacy
    from confide.risk import compare_noise as compare_noise
    from confide.risk import tune_cellkey as tune_cellkey
    from confide.risk import tune_risk as tune_risk
    from confide.schema import Query as Query
    from confide.schema import Schema as Schema
    from confide.studio.board import tune_board as tune_board
    from confide.suppressing import suppress as suppress

VERBS = {
    "account_release": "releases.loss_account",
    "account_strategy": "mechanisms.topdown.strategy_file",
    "attack_arithmetic": "mechanisms.cellkey.verify",
    "audit_canaries": "risk",
    "audit_noise": "api",
    "audit_privacy": "risk",
    "audit_suppression": "attacks",
    "check": "api",
    "compare": "comparison",
    "compare_noise": "risk",
    "demo": "demonstration",
    "destroy_key": "api",
    "epsilon_of_rho": "releases.loss_account",
    "evaluate": "api",
    "give_record_keys": "mechanisms.cellkey.cellkey_answers",
    "import_pl94": "inputs.pl94",
    "infer": "inference",
    "json_schema": "api",
    "new": "api",
    "new_schema": "api",
    "new_signature_key": "api",
    "open_ledger": "in_memory",
    "open_release": "opened",
    "open_source": "inference",
    "perturb_cells": "api",
    "perturbation_table": "noise.ptables.ptable_answer",
    "protect": "in_memory",
    "reconcile": "api",
    "reconstruct": "attacks",
    "rehearse": "rehearsal",
    "reidentify_files": "attacks",
    "replay": "api",
    "replicate": "inference",
    "rho_of_epsilon": "releases.loss_account",
    "run": "api",
    "sign_release": "api",
    "simulate": "population",
    "suppress": "suppressing",
    "suppress_tables": "mechanisms.suppression",
    "swap_records": "mechanisms.swapping",
    "synthesize": "api",
    "tabulate": "in_memory",
    "tune_cellkey": "risk",
    "tune_risk": "risk",
    "tune_safetab": "mechanisms.safetab.tuning",
    "tune_board": "studio.board",
    "tune_tables": "mechanisms.tables.tuning",
    "tune_topdown": "inference.tuning",
    "verify": "api",
}
"""Where each verb is."""

NOUNS = {
    "ApproxDP": "privacy",
    "DiscreteGaussian": "noise",
    "Ledger": "releases.ledger",
    "MECHANISMS": "mechanisms",
    "Mechanism": "releases.mechanism",
    "NoiseStream": "noise",
    "Plan": "releases.plan",
    "Published": "releases.published",
    "PureDP": "privacy",
    "Query": "schema",
    "ReleaseKey": "noise",
    "Schema": "schema",
    "TwoSidedGeometric": "noise",
    "ZCDP": "privacy",
}
"""Where each noun is."""

ROOMS = (
    "attacks", "comparison", "documents", "engines", "estimation", "geography", "inference", "inputs", "mechanisms",
    "noise", "population", "privacy", "releases", "report", "risk", "schema", "utility",
)  # fmt: skip

__all__ = ["__version__", *VERBS, *NOUNS, *ROOMS]


def __getattr__(name: str) -> Any:
    if name in ROOMS:
        return import_module(f"confide.{name}")
    place = VERBS.get(name) or NOUNS.get(name)
    if place is None:
        raise AttributeError(f"module 'confide' has no attribute {name!r}")
    return getattr(import_module(f"confide.{place}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
