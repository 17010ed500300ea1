"""The commands of the laboratory: people who are made up, comparisons, audits, attacks, and what noise gives away."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from confide.answers import ShownTable, note
from confide.cli.commands import Given, Verb, setting
from confide.cli.show import print_json, show_parts
from confide.errors import ParameterError, Place
from confide.exact import probability
from confide.lazy_names import named

# Made-up people, published people, and comparisons.


def _demonstrated(values: dict[str, Any]) -> None:
    demonstrations, mechanism = named("confide.lab.demonstration:DEMONSTRATIONS"), values["mechanism"]
    of_a_country = named("confide.lab.demonstration:OF_A_COUNTRY")
    if mechanism not in demonstrations:
        raise typer.BadParameter(f"there is no demonstration of {mechanism!r}: {' or '.join(demonstrations)}")
    if "layout" in values and mechanism not in of_a_country:
        raise typer.BadParameter(f"--layout goes with {', '.join(of_a_country)}")


demo = Verb(
    """Make complete releases of made-up people, with ledger, certificate, verification, and a dossier with pictures.

    topdown: persons and housing units, records in, protected records and tables out. tables: counts with noise and
    margins. safetab: detailed race and ethnicity groups, from the Census Bureau's input layout to its tables.
    safetab-h: their households by type and tenure. phsafe: people in households, and averages. census-2020: persons,
    groups, household groups and people in households of one state on one ledger, with the account of all. cellkey:
    the tables of the EU programme. swapping: households exchange places. suppression: small counts are left out.
    """,
    "confide.lab.demonstration:demonstrate",
    options={"mechanism": "[MECHANISM]"},
    prepare=_demonstrated,
)
pl94 = Verb(
    "Person and block files from a redistricting file; every published cell is tabulated again and compared.",
    "confide.lab.pl94.importer:import_pl94",
    options={"zip_path": "ZIP", "out_folder": "--out"},
    without="limit",
)
made_up = Verb(
    "Make up people, with places, households and group quarters. Nothing comes from a real person.",
    "confide.lab.population.generate:simulate",
    options={"folder": "--out", "persons": Given(default=100_000), "seed": Given(default=7)},
    without="settings",
)
compare = Verb(
    """Protect the same people in several ways, attack each, and write one page: DIR/comparison.html.

    No protection, swapping, suppression, the cell key method, noisy tables, TopDown: errors by geography, counts
    published, and how many people an outsider recognises, beside what guessing gives. It uses the truth.
    """,
    "confide.lab.comparison.comparing:compare",
    options={"spec": "SPEC", "folder": "--out DIR", "also": "--also MECHANISM=RHO"},
)

# Audits.


def _noted(values: dict[str, Any]) -> None:
    values["note"] = lambda text: show_parts([note(text, aside=True)])


suppression = Verb(
    """What follows from a table about its suppressed cells: the smallest interval for each, by linear programming.

    Exit code 1: a cell is disclosed, or its interval is narrower than required, or the table does not add up; or
    nothing is suppressed, so that there is nothing to judge.
    """,
    "confide.lab.attacks.audit_files:audit_suppression",
    options={"tables": "TABLE", "truth": "--truth"},
    prepare=_noted,
    without="note",
)
privacy = Verb(
    """A lower bound of the privacy loss, from many runs on made-up neighbours, beside what the plan states.

    The office's records are not opened, no ledger is touched, and what is made is thrown away. Exit code 1: the bound
    exceeds the stated loss, so the noise is smaller than it should be, or a record counts too often; or draws are not
    as planned; or missing noise would not have been noticed here.
    """,
    "confide.lab.risk.privacy_audit.audit_of_privacy:audit_privacy",
    options={
        "spec": "SPEC",
        "canaries": Given(meaning="Run once, with so many made-up canaries; a much looser bound."),
    },
    others={"canaries": "confide.lab.risk.privacy_audit.audit_of_privacy:audit_canaries"},
)

# Attacks.


LIST_OF_AREAS = (
    "The list of areas (CSV or Parquet): a row for each smallest one, with its code on every level. Needed where codes "
    "do not begin with those of the areas that they lie in."
)
BLOCK = "The column with the smallest area's code."
LEVELS = "A level above the smallest areas: NAME, NAME=COLUMN of the list, or NAME=DIGITS"
FORMATS = (".csv", ".parquet")


def _read_areas(values: dict[str, Any]) -> None:
    if "out" in values and values["out"].suffix not in FORMATS:
        raise typer.BadParameter("--out takes a name that ends in .parquet or .csv")
    if (file := values.pop("geography", None)) is not None:
        read = named("confide.lab.attacks.reconstruction.sf1:read_areas")
        values["areas"] = read(file, values["block"], values.get("levels") or ())


reconstruct = Verb(
    """Find records that have the published tables, and how much other records with the same tables could differ.

    The records in FILE may be true: the file can be read by its owner alone.
    """,
    "confide.lab.attacks.reconstruction.result:reconstruct",
    settings="repeats seed time_limit groups",
    options={
        "source": Given(
            "TABLES",
            kind=Path,
            meaning="A folder with a tables.toml and a file for each table, or a release of Confide.",
        ),
        "schema": "--schema FILE",
        "groups": Given("--group CODE", meaning="An iteration code of a safetab release; default: all groups."),
        "level": Given(
            meaning="Solve the units of this level as a whole, such as block or tract; default: as tables allow."
        ),
        "repeats": Given(least=0, most=10_000, meaning="Solve again so often with random objectives, to rank records."),
        "seed": Given(least=0),
        "time_limit": Given(
            "--time-limit SECONDS", least=0.001, meaning="The time for one programme; default: 10 or 600."
        ),
        "out": Given("--out FILE", meaning="Write the records here (.parquet or .csv)."),
    },
    extra={
        "geography": (
            Annotated[Path | None, typer.Option("--geography", metavar="FILE", help=LIST_OF_AREAS)],
            None,
        ),
        "block": (Annotated[str, setting("--block", metavar="COLUMN", help=BLOCK)], "geocode"),
        "levels": (
            Annotated[
                list[str] | None,
                setting("--geography-level", metavar="NAME=COLUMN", help=f"{LEVELS}; repeatable."),
            ],
            None,
        ),
    },
    prepare=_read_areas,
    without="areas",
)
arithmetic = Verb(
    """Compute with the published columns of each cell, and say how many true counts are left for it.

    Exit code 1: a cell has one true count alone that fits, or fewer than the settings prove.
    """,
    "confide.lab.attacks.arithmetic:attack_arithmetic",
    options={"release": Given("RELEASE", meaning="A release of the cell key method, or the folder of its run.")},
)
statistics = Verb(
    "Find everybody who fits published counts, median and mean ages of a few people, step by step.",
    "confide.lab.attacks.reconstruction.age_statistics:reconstruct_statistics",
    options={
        "source": Given(
            "[FILE]", kind=str, meaning="Counts, median and mean ages: a TOML file; default: seven-people."
        ),
        "leave_out": Given("--leave-out GROUP", meaning="A group that is not published."),
        "digits": Given(least=0, most=3, meaning="The digits after the point that means have."),
    },
    without="base examples",
)
tabulate = Verb(
    "Make tables from records, to try the attack on them: of any country, or those of Summary File 1. CONFIDENTIAL.",
    "confide.lab.attacks.reconstruction.sf1:tabulate_sf1",
    settings="block levels tables tract_digits",
    options={
        "records": Given(
            "RECORDS",
            meaning="Person records: geocode, sex, age, cenrace, hispanic; or, with --schema, those of any schema.",
        ),
        "folder": Given("--out FOLDER", meaning="Write the tables here."),
        "schema": Given("--schema FILE", kind=str, meaning="The schema of your own records."),
        "geography": Given("--geography FILE", meaning=LIST_OF_AREAS),
        "block": Given("--block COLUMN", meaning=BLOCK),
        "levels": Given("--geography-level NAME=COLUMN", meaning=f"{LEVELS}."),
        "describe": Given(
            "--describe FILE",
            meaning="Which tables: a file in the form of tables.toml. Default: all pairs of attributes on every level.",
        ),
        "tables": Given("--table NAME", meaning="A table, such as P12; default: all."),
        "tract_digits": Given(
            least=0, meaning="Without --schema: how many digits of a geocode are the tract; 0: no tables of tracts."
        ),
    },
    others=dict.fromkeys(("schema", "describe"), "confide.lab.attacks.reconstruction.sf1:tabulate_records"),
)


def _with_attacker(values: dict[str, Any]) -> None:
    errors_made = values.pop("attacker_from_truth", None)
    if ("attacker" in values) == (errors_made is not None):
        raise typer.BadParameter("give ATTACKER, or --attacker-from-truth, and not both", param_hint="ATTACKER")
    if errors_made is not None:
        values["attacker"] = named("confide.lab.attacks.reidentification.people_files:parse_attacker")(errors_made)
    if "matches" in values and values["matches"].suffix.lower() not in FORMATS:
        raise typer.BadParameter("--matches takes a name that ends in .parquet or .csv")


reidentify = Verb(
    """Match reconstructed records with a file of known people, and count how many would be recognised rightly.

    The modal and the proportional guesser, who know the blocks and nobody in them, are always shown too.
    """,
    "confide.lab.attacks.reidentification.from_files:reidentify_files",
    settings="columns age_bins block_group_digits tract_digits divide_by guess_from seed known learn",
    options={
        "reconstructed": "RECONSTRUCTED",
        "truth": "--truth",
        "attacker": Given("ATTACKER", kind=Path | None),
        "columns": "--columns OURS=THEIRS",
        "age_bins": Given("--age-bins NAME", kind=str),
        "block_group_digits": Given(least=1, most=40),
        "tract_digits": Given(least=1, most=40),
        "seed": Given(least=0),
        "matches": "--matches FILE",
        "known": "--known NAME",
        "learn": "--learn NAME",
        "schema": "--schema FILE",
    },
    extra={
        "attacker_from_truth": (
            Annotated[
                str | None,
                typer.Option(
                    metavar="SETTINGS",
                    help="Make the attacker's file: perfect, or coverage=0.9,age_error=0.05,age_years=1,sex_error=0.01,"
                    "block_error=0.1,duplicates=0.02,seed=1.",
                ),
            ],
            None,
        )
    },
    prepare=_with_attacker,
    plots=True,
)

# What noisy counts say about one person.


def _counts(texts: Sequence[str]) -> list[int]:
    checked = named("confide.lab.risk.bayesian.one_level:checked_value")
    try:
        return [checked(int(part)) for text in texts for part in text.split(",")]
    except ValueError:
        raise ParameterError("not-a-count/list", where=Place(path="--released"), found=",".join(texts)[:40]) from None


def _released(text: str) -> tuple[int, int, int]:
    counts = _numbers(text, "--released", lowest=-(10**9))
    if len(counts) != 3:
        raise ParameterError("not-counts/list", where=Place(path="--released"), found=text[:60])
    return counts[0], counts[1], counts[2]


def _numbers(text: str, option: str, lowest: int = 0) -> list[int]:
    numbers = []
    for part in text.split(","):
        digits = part.strip().removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 9) or int(part) < lowest:
            raise ParameterError(
                "not-counts/commas", where=Place(path=option), found=text[:60], lowest=lowest, option=option
            )
        numbers.append(int(part))
    return numbers


def _at_parents(values: dict[str, Any]) -> None:
    parents = values.pop("x2")
    if values.pop("accuracy"):
        values["accuracy_at"] = _numbers(parents, "--x2", lowest=values["known_count"] + 1)


bayes = Verb(
    "What an adversary who knows everyone else learns about one person from a noisy count.",
    "confide.lab.risk.bayesian.bayes_answer:bayes",
    settings="neighbours known_count also_rho",
    options={
        "priors": Given("--prior", lambda texts: [probability(text, "--prior") for text in texts], list[str]),
        "released": Given("--released COUNT", _counts, list[str]),
        "known_count": Given(least=0),
    },
    plots=True,
)
profile = Verb(
    "The largest rho for which posterior-to-prior ratios keep a profile, for all priors; and which side binds.",
    "confide.lab.risk.bayesian.decision_map:tune_risk",
    options={"profile": "--profile PROFILE"},
)
hierarchy = Verb(
    "What an adversary learns about one person from counts at several levels.",
    "confide.lab.risk.bayesian.hierarchy_answer:hierarchy",
    settings="known_count prior_x2 sibling_noise ties post_processed rounding nodes",
    options={
        "siblings": Given(least=1, most=100_000),
        "released": Given("--released X1,X2,Y", _released, str),
        "known_count": Given(least=0),
        "prior_x2": "--prior-x2 LAW",
        "post_processed": Given("--post-processed LIST", lambda text: _numbers(text, "--post-processed"), str),
        "path": "--tree FILE",
        "nodes": "--node",
    },
    extra={
        "accuracy": (Annotated[bool, setting(help="How often decisions are right, over all releases.")], False),
        "x2": (
            Annotated[str, setting(metavar="LIST", help="True parent's counts, target included, for accuracy.")],
            "1,2,4,8,20",
        ),
    },
    prepare=_at_parents,
    plots=True,
    without="accuracy_at",
    others={"path": "confide.lab.risk.bayesian.hierarchy_answer:hierarchy_of_tree"},
)

# What bounded noise gives away, before anything is published; and all distributions for the same programme.


BOUNDED = "confide.lab.risk.bounded_noise.programme_risks"


def own_areas(texts: list[str] | None) -> dict[str, int]:
    """Numbers of areas, from NAME=NUMBER as typed."""
    own: dict[str, int] = {}
    for text in texts or ():
        name, equals, digits = text.partition("=")
        if not equals or not (digits.isascii() and digits.isdigit() and 0 < len(digits) < 10 and int(digits)):
            raise ParameterError("not-areas", where=Place(path="--areas"), found=text[:60])
        own[name] = int(digits)
    return own


OWN_AREAS = Given("--areas NAME=NUMBER", own_areas, list[str])
OF_A_PROGRAMME: dict[str, Given | str] = {
    "areas": OWN_AREAS,
    "leave_out": "--leave-out BREAKDOWN",
    "programme": "--programme NAME",
}
bound = Verb(
    "How many triples F + M = T reveal the largest noise, and what knowing it would give away.",
    f"{BOUNDED}:bound",
    settings="alpha country areas unit rule available",
    options={
        "areas": OWN_AREAS,
        "bound": "-D --bound",
        "variance": "-V --variance",
        "available": Given("--triples", least=0),
    },
    plots=True,
)
averaging = Verb(
    """Count the ways to have each statistic of a programme, and what averaging them would find.

    With the same noise for the same members (SPSN) and without.
    """,
    f"{BOUNDED}:averaging",
    settings="rule areas single optimum unit leave_out alpha top",
    options={**OF_A_PROGRAMME, "targets": "--target LEVELS", "top": Given(least=1)},
    plots=True,
)
areas = Verb(
    "What unbounded noise does to small areas: bounds that hold with some probability, and counts that are far off.",
    f"{BOUNDED}:areas",
    settings="country number populations alpha",
    options={
        "epsilons": "--epsilon",
        "bound": Given("-E --bound", least=1),
        "number": Given(least=1),
        "populations": Given("--populations FILE", "confide.lab.risk.bounded_noise.noise_rows:read_populations", Path),
    },
    plots=True,
)
region = Verb(
    """Bounds D and variances V that withstand averaging and protect the bound, for a programme and a country.

    A recommended pair, and the band that is left for the ε of noise without a bound.
    """,
    f"{BOUNDED}:tune_cellkey",
    settings="areas unit leave_out rule optimum largest_noise small_areas area_bound alpha relaxed",
    options={
        **OF_A_PROGRAMME,
        "largest_noise": Given(least=1, most=100),
        "small_areas": Given(least=1),
        "area_bound": Given(least=1),
    },
    plots=True,
)


def _of_one_law(values: dict[str, Any]) -> None:
    given = [name for name in ("variance", "margin", "epsilon") if name in values]
    if len(given) != 1 or ("bound" not in values) != ("epsilon" in values):
        raise typer.BadParameter("give --variance and --bound, or --margin and --bound, or --epsilon")


compare_noise = Verb(
    """All distributions for the same static programme: from a variance or margin and a bound, or from epsilon.

    The last row of a perturbation table is compared with them where a variance and a bound are given.
    """,
    "confide.lab.risk.noise_comparison:compare_noise",
    settings="margin level delta neighbours",
    options={
        "variance": "-V --variance",
        "bound": "-D --bound",
        "measurements": Given("-t --measurements", least=1),
    },
    prepare=_of_one_law,
)

# What a promise comes to.


def _of_one_promise(values: dict[str, Any]) -> None:
    if sum(name in values for name in ("rho", "epsilon", "strategy")) != 1:
        raise ParameterError("curve-of-what/clear", where=Place(path="confide risk curve"))
    if "root" in values and "strategy" not in values:
        raise ParameterError("curve-of-what/none-several", where=Place(path="confide risk curve"))


curve = Verb(
    """The largest power of a test about one record at a level, and epsilon over delta, in every way that is known.

    With --strategy also what its own measurements allow, and the same by attribute and by block within each geolevel.
    """,
    "confide.lab.risk.testing.curve_answer:curve",
    settings="levels deltas",
    options={"levels": "--level", "deltas": "--delta"},
    prepare=_of_one_promise,
    plots=True,
    others={"epsilon": "confide.lab.risk.testing.curve_answer:curve_of_epsilon"},
)
release_risk = Verb(
    """What every noisy measurement of a TopDown release, taken together, says about one person.

    Effective rho of each count by generalised least squares, and what it does to beliefs. From public files alone.
    """,
    "confide.lab.risk.release_risk:release_risk",
    options={
        "path": "RELEASE_OR_RUN",
        "priors": "--prior P",
        "worst": Given(least=0),
        "public_zeros": "--public-zeros/--without-public-zeros",
    },
    plots=True,
)


def _or_shipped(values: dict[str, Any]) -> None:
    """Without a name, the invariants that ship."""
    if values.get("names"):
        return
    listed = named("confide.lab.risk.invariant_sets:shipped_invariants")()
    if values["as_json"]:
        print_json([item.as_dict() for item in listed])
    else:
        rows = [(item.name, item.title, item.records) for item in listed]
        show_parts([ShownTable(["name", "published without noise", "records"], rows)])
    raise typer.Exit


invariants = Verb(
    """What invariants do to the promise: for one record, and for the smallest group that hides what they fix.

    Without a name: the invariants that ship. No records are read.
    """,
    "confide.lab.risk.invariant_sets:invariants",
    options={
        "names": Given("NAME...", kind=list[str] | None),
        "epsilon": Given(meaning="The loss of the release, in pure ε."),
        "rho": Given(meaning="The loss of the release, in zCDP."),
        "delta": Given(meaning="The δ at which a ρ is stated as an ε."),
        "explained": Given("--explain", meaning="Say in sentences what it means."),
    },
    prepare=_or_shipped,
    without="base own",
)
