"""The commands of single methods: what a budget means and what noise does, the cell key method, and SafeTab-P.

``confide account``, ``confide cellkey`` and ``confide safetab``.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from confide.cli.commands import Given, Revealed, Verb
from confide.errors import Finding, ParameterError, Place
from confide.exact import exact
from confide.lazy_names import requests
from confide.noise.fitting import NoiseKind, noise_law

# ``confide account``: no records are read.


def _one_of_both(values: dict[str, Any]) -> None:
    if ("rho" in values) == ("epsilon" in values):
        raise typer.BadParameter("give either --rho or --epsilon")


strategy = Verb(
    "The cost of a TopDown strategy, whole and in parts, and the variance of each of its measurements.",
    "confide.mechanisms.topdown.strategy_file:account_strategy",
    options={"name": "NAME", "renormalise": "--renormalise/--keep-noise"},
)
convert = Verb(
    "Epsilon of a zCDP budget at a delta, three ways, each rounded up; or the rho of an epsilon, rounded down.",
    "confide.releases.loss_account:epsilon_of_rho",
    prepare=_one_of_both,
    others={"epsilon": "confide.releases.loss_account:rho_of_epsilon"},
)
release = Verb(
    "The cost of a release, composed anew from its measurements, with its privacy loss distribution.",
    "confide.api:account_release",
    options={"folder": "RELEASE"},
)

OF_LAW: dict[str, tuple[Any, Any]] = {
    "kind": (Annotated[NoiseKind, typer.Option("--law", help="The noise law.")], inspect.Parameter.empty),
    "sigma2": (Annotated[str | None, typer.Option(help="The parameter of a discrete Gaussian (exact).")], None),
    "epsilon": (Annotated[str | None, typer.Option(help="The parameter of a two-sided geometric (exact).")], None),
    "bound": (Annotated[int | None, typer.Option(help="The largest noise, for a truncated law.")], None),
}
"""The options that say what noise is meant."""


def _law(values: dict[str, Any]) -> None:
    kind, sigma2, epsilon, bound = (values.pop(name, None) for name in OF_LAW)
    parameter, other = (epsilon, sigma2) if kind.by_epsilon else (sigma2, epsilon)
    if parameter is None or other is not None:
        raise typer.BadParameter(f"{kind.value} takes {'--epsilon' if kind.by_epsilon else '--sigma2'}")
    if kind.bounded != (bound is not None):
        raise typer.BadParameter(f"{kind.value} takes {'a' if kind.bounded else 'no'} --bound")
    values["law"] = noise_law(kind, sigma2=sigma2, epsilon=epsilon, bound=bound)


def _points(text: str) -> list[int]:
    try:
        return [int(point) for point in text.split(",")]
    except ValueError:
        raise typer.BadParameter("--at takes whole numbers, separated by commas") from None


pmf = Verb(
    "The probability of values of the noise, and of values up to them.",
    "confide.noise.fitting:noise_probabilities",
    options={"at": Given("--at", _points, str)},
    extra=OF_LAW,
    prepare=_law,
    without="law",
)
quantile = Verb(
    "The smallest value that the noise stays at or below with a probability.",
    "confide.noise.fitting:noise_quantile",
    options={"probability": "-p --probability"},
    extra=OF_LAW,
    prepare=_law,
    without="law",
)
margin = Verb(
    "The noise margin: the smallest distance from zero that the noise keeps within with a probability.",
    "confide.noise.fitting:noise_margin",
    options={"probability": "-p --probability"},
    extra=OF_LAW,
    prepare=_law,
    without="law",
)


# ``confide cellkey``: keys for records, any table that is asked for, and tables of noise.


PTABLE = "confide.noise.ptables.ptable_answer:perturbation_table"
ANSWERS = "confide.mechanisms.cellkey.cellkey_answers"


def _settings_or_a_file(values: dict[str, Any]) -> None:
    given = {each.name for each in requests(PTABLE) if values.get(each.name, each.default) != each.default}
    if "path" not in values and not {"D", "V"} <= set(values):
        raise ParameterError("bad-option/needs", where=Place(path="-D"))
    if "path" in values and not given <= {"kind", "modify_at", "seed", "form", "out"}:
        raise ParameterError("bad-option/read", where=Place(path="--import"))


def _rows(option: str) -> Given:
    return Given(f"{option} I[,I...]", lambda text: _whole_numbers(option, text), str)


def _whole_numbers(option: str, text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        raise ParameterError("bad-option/list", where=Place(path=option), found=text[:40], option=option)
    return [int(part) for part in parts]


def _names_of(text: str) -> list[str]:
    """Names with commas between."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _chosen(texts: Sequence[str]) -> dict[str, list[str]]:
    """Filters by variable; a variable that is named again has several labels."""
    chosen: dict[str, list[str]] = {}
    for text in texts:
        name, equals, label = text.partition("=")
        if not (name.strip() and equals and label.strip()):
            raise ParameterError("bad-option/filter", where=Place(path="--where"), found=text[:80])
        chosen.setdefault(name.strip(), []).append(label.strip())
    return chosen


ptable = Verb(
    """Compute a perturbation table for the cell key method: for each count the noise of maximum entropy, with a
    proof.
    """,
    PTABLE,
    settings="mono no_mono_rows equality icat step kind keys modify_at seed",
    options={
        "D": "-D --max-noise",
        "V": "-V --variance",
        "pstay": Given("--pstay P[,P...]", lambda text: text.split(","), str),
        "no_mono_rows": _rows("--no-mono-rows"),
        "icat": _rows("--icat"),
        "kind": "--type",
        "modify_at": "--modify SHARE",
        "seed": "--seed HEX",
        "path": Given("--import FILE", meaning="Read and check a table instead of making one."),
        "form": "--format",
        "out": "--out FILE",
    },
    prepare=_settings_or_a_file,
    others={"path": "confide.noise.ptables.ptable_answer:perturbation_table_from"},
)
keys = Verb(
    """Give every record a key, once. Keep the new file as the records: other keys would be other noise.

    Keys are secret. Whoever has them and the published tables has the true counts.
    """,
    f"{ANSWERS}:give_record_keys",
    options={
        "records": "RECORDS",
        "out": "--out",
        "keys": Given(least=2, most=1 << 32),
        "first": Given("--from", least=0, most=1),
    },
)
table = Verb(
    """Answer any table over the schema of a spec, with the figures that a release has for the same people.

    It need not be listed in the spec. Only perturbed figures leave; cells that are not shown are zero.
    """,
    f"{ANSWERS}:table_on_request",
    options={
        "loaded": Given("SPEC", "confide.api:load", Path),
        "variables": Given("--variables V[,V...]", _names_of, str),
        "where": Given("--where V=LABEL", _chosen, list[str]),
        "levels": "--level LEVEL",
    },
)
perturb = Verb(
    """Perturb a table that was counted elsewhere, by the cell keys that it brings, and seal it as a release.

    The table is confidential: it has true counts and cell keys. What is released has neither.
    """,
    "confide.api:perturb_cells",
    settings="js pstay mono keys shuffle threshold count cell_key weight weight_gap variables name title delimiter",
    options={
        "table": "TABLE",
        "out": "--out DIR",
        "ptable": "--ptable FILE",
        "D": "-D",
        "V": "-V",
        "shuffle": "--shuffle ORDER",
        "variables": Given("--variables V[,V...]", _names_of, str),
    },
)
abs_noise = Verb(
    "Make a table of noise for the lookup abs: 256 values for each column, from the law of a perturbation table.",
    f"{ANSWERS}:make_abs_table",
    settings="js size small_n draw seed",
    options={
        "D": Given("-D --max-noise", least=1),
        "V": "-V --variance",
        "out": "--out",
        "js": Given(least=0),
        "size": Given(least=2),
        "small_n": Given(least=1),
        "seed": "--seed HEX",
    },
)


# ``confide safetab``: the Census Bureau's program, as its operators know it, and what budgets buy.


OFFICIAL = "confide.official_runs"
KEPT_BESIDE = """

    On invalid input nothing is written, and the exit code is 1. OUT holds what may be published and nothing else. Key,
    counts and ledger are kept beside it, in OUT-confidential. After a crash, run the same command again: it continues
    and costs nothing more.
    """
OPTIONS_OF_PROGRAMS = "coterminous", "sensitivity"
"""The options that only one of the programs has."""


@dataclass(frozen=True)
class ProgramCommands:
    """The commands of one of the Census Bureau's programs, which differ in names alone: the first argument is the
    folder of parameters, or the configuration, as that program has it."""

    name: str
    """What the library calls the program."""
    parameters: Given
    data: Given
    option: str
    """Its own option."""

    def verb(self, text: str, function: str) -> Verb:
        """A command: what its help says, and the function that answers."""
        known = {each.name for each in requests(f"{OFFICIAL}:{function}")}
        settings = known & ({self.option} if function == "execute" else {self.option, "ledger"})
        options: dict[str, Given | str] = {
            "memory": Given(default="4GiB"),
            "out": "OUT",
            "folder": Given("FOLDER", meaning="Where to write spec.toml."),
        }
        return Verb(
            text + (KEPT_BESIDE if function == "execute" else ""),
            f"{OFFICIAL}:{function}",
            settings=" ".join(sorted(settings)),
            options={"parameters": self.parameters, "data": self.data}
            | {name: each for name, each in options.items() if name in known},
            prepare=lambda values: values.update(program=self.name),
            without=" ".join(("program", *(name for name in OPTIONS_OF_PROGRAMS if name != self.option))),
            reveal=_written if function == "convert" else None,
        )


def _written(spec: Path) -> Revealed:
    return Revealed({"ok": True, "spec": str(spec)}, [f"Wrote {spec}. Then: confide check {spec}"])


_FOLDER = Given("PARAMETERS", meaning="The folder with config.json and the code lists.")
SAFETAB = ProgramCommands(
    "safetab", _FOLDER, Given("DATA", meaning="The folder with person-records and GRF-C."), "coterminous"
)
SAFETAB_H = ProgramCommands(
    "safetab-h",
    _FOLDER,
    Given("DATA", meaning="The folder with household-records, GRF-C and pop-group-totals."),
    "",
)
PHSAFE = ProgramCommands(
    "phsafe",
    Given("CONFIG", meaning="The configuration, config.json."),
    Given("DATA", meaning="The folder with persons, units and geo."),
    "sensitivity",
)

validate = SAFETAB.verb(
    "Find every problem of an official input at once. Nothing is written and nothing spent; exits 1 on findings.",
    "validate",
)
execute = SAFETAB.verb("Make the tables of an official input.", "execute")
convert_official = SAFETAB.verb(
    "Write a spec of ours for an official input, from its config.json; with a ledger of its budget.", "convert"
)
coterminous = Verb(
    """Give areas of the same extent the same figures in a finished release of SafeTab-P.

    Made of released figures alone: it costs nothing. The geography is that of the run beside the release.
    """,
    "confide.mechanisms.safetab.output.coterminous:coterminous",
    options={"release": "RELEASE", "out": "--out DIR"},
    settings="sets geography",
)
validate_h = SAFETAB_H.verb(
    "Find every problem of an input of SafeTab-H at once. Nothing is written and nothing spent; exits 1 on findings.",
    "validate",
)
execute_h = SAFETAB_H.verb("Make the tables of an input of SafeTab-H.", "execute")
convert_h = SAFETAB_H.verb(
    "Write a spec of ours for an input of SafeTab-H, from its config.json; with a ledger of its budget.", "convert"
)
validate_households = PHSAFE.verb(
    "Find every problem of an input of PHSafe at once. Nothing is written and nothing spent; exits 1 on findings.",
    "validate",
)
execute_households = PHSAFE.verb("Make the tables of an input of PHSafe.", "execute")
convert_households = PHSAFE.verb(
    "Write a spec of ours for an input of PHSafe, from its config.json; with a ledger of its budget.", "convert"
)
exact_households = Verb(
    """Make the tables of an input of PHSafe without noise, as the Bureau's non-private mode does. Confidential.

    They are the truth, for the curator alone: nothing is charged, and only you can open the folder.
    """,
    "confide.mechanisms.phsafe.official:exact_households",
    options={"config": "CONFIG", "data": "DATA", "out": "OUT"},
)
estimate_households = Verb(
    """Estimate counts and averages from a release of PHSafe: no count below zero, no impossible average.

    Made of nothing but the release: it costs nothing. The files are those of the Census Bureau's programs.
    """,
    "confide.mechanisms.phsafe.estimate:estimate_release",
    options={"release": "RELEASE", "out": "--out DIR"},
)

LevelKey = tuple[str, int]


def _levels(
    budget_texts: Sequence[str], target_texts: Sequence[str]
) -> tuple[dict[LevelKey, Fraction], dict[LevelKey, int]]:
    """Budgets and targets of levels as typed; every mistake is reported."""
    findings: list[Finding] = []
    budgets: dict[LevelKey, Fraction] = {}
    targets: dict[LevelKey, int] = {}
    for option, texts in (("level", budget_texts), ("moe", target_texts)):
        for text in texts:
            try:
                key, number = _parsed(option, text)
            except ParameterError as error:
                findings += error.findings
                continue
            if key in budgets or key in targets:
                findings.append(
                    Finding.of(
                        "budget-and-target/level-determines"
                        if (key in targets) is not (option == "moe")
                        else "level-twice/budget",
                        where=Place(path=f"--{option}"),
                        both=(key in targets) is not (option == "moe"),
                        key=key[0],
                        key_found=key[1],
                    )
                )
            elif option == "level":
                budgets[key] = number
            else:
                targets[key] = int(number)
    if findings:
        raise ParameterError(findings)
    return budgets, targets


def _parsed(option: str, text: str) -> tuple[LevelKey, Fraction]:
    name, equals, number = text.partition("=")
    region_type, colon, iteration_level = name.strip().rpartition(":")
    numbered = iteration_level.isascii() and iteration_level.isdigit() and len(iteration_level) < 9
    value = exact(number, f"--{option} {name[:40]}") if equals and colon and numbered else None
    if value is None or (option == "moe" and value.denominator != 1):
        raise ParameterError(
            "not-a-level", where=Place(path=f"--{option}"), found=text[:60], is_level=option == "level", option=option
        )
    return (region_type.upper(), int(iteration_level)), value


def _by_level(values: dict[str, Any]) -> None:
    values["budgets"], values["targets"] = _levels(values.get("budgets", ()), values.get("targets", ()))


tune = Verb(
    """Budgets and noise margins of a SafeTab-P release, either from the other; suppression, bias, and the total.

    Without options: the production settings of the 2020 Census, United States.
    """,
    "confide.mechanisms.safetab.tuning.safetab_tuning:tune_safetab",
    settings="add from_targets definition gamma race_codes stability suppression relative_error sizes delta rule "
    "decimals puerto_rico compare",
    options={
        "settings": Given(
            "--settings FILE",
            "confide.mechanisms.safetab.spec:settings_of",
            Path,
            "Begin with those of a spec.toml or a config.json.",
        ),
        "budgets": Given(
            "--level REGION:LEVEL=BUDGET", list, list[str], "A level with its budget, such as STATE:2=2.134."
        ),
        "targets": Given(
            "--moe REGION:LEVEL=PERSONS", list, list[str], "A level with its target margin, as STATE:2=3."
        ),
        "definition": Given(kind=str),
        "sizes": "--size",
    },
    prepare=_by_level,
    plots=True,
)
