"""The commands of a release, from the first spec to its readers: each made of a function of the library."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.answers import AnswerPart, ShownTable
from confide.cli import show
from confide.cli.commands import Given, Revealed, Verb, setting
from confide.errors import Place, RunError
from confide.lazy_names import DEMONSTRATION, REGION, named
from confide.releases.ledger import Ledger

if TYPE_CHECKING:
    from confide.drafting import NewSchema
    from confide.inputs.frame import OffendingValues
    from confide.releases.check import Checked
    from confide.releases.dossier import Evaluated

SPEC: dict[str, Given | str] = {"spec": Given("SPEC", meaning="The spec file of the release (TOML).")}
OF_RUN: dict[str, Given | str] = {"run_folder": "RUN"}
SEVERAL: dict[str, Given | str] = {"run_folder": "RUN", "more": "RUN..."}
ACCEPT = Given(
    meaning="Use this ledger although the records have another one, or a newer copy of it, or although it was charged "
    "for other records: these are the same people."
)
SIGN = "Sign the sealed release with the office's key: confide new signature."


# Specs and schemas to start from.


def _codes(texts: Sequence[str]) -> dict[str, str]:
    for text in texts:
        if text.count("=") != 1 or not all(text.split("=")):
            raise typer.BadParameter(f"--merged takes an old code and a new one, such as 017=018, not {text!r}")
    return {old.strip(): now.strip() for old, now in (text.split("=") for text in texts)}


def _with_text(answer: NewSchema) -> Revealed:
    """The schema itself, where it was not written to a file."""
    text = [] if answer.file is not None else [answer.text.reveal("shown to the curator, who asked for it")]
    return Revealed(answer.as_dict(), text or list(answer.described()))


new = Verb(
    """Write a commented spec to start from, or a schema for a file of records.

    With --from, Confide proposes a schema, a spec and, without --geography, a table of areas from your own files. What
    these files list is confidential until you have looked at it and keep them.
    """,
    "confide.drafting:new",
    settings="merged household households place",
    options={
        "mechanism": "MECHANISM",
        "folder": "FOLDER",
        "open_ledger": "--ledger/--no-ledger",
        "from_file": "--from FILE",
        "geography": "--geography FILE",
        "merged": Given("--merged OLD=NEW", _codes),
        "household": "--household COLUMN",
        "households": "--households FILE",
        "place": "--place COLUMN",
        "ledger_file": "--ledger-file FILE",
        "schema": "--schema FILE",
    },
    extra={"name": (Annotated[str | None, setting(help="With --from: the name of the release.")], None)},
)
schema = Verb(
    "Propose a schema for a file of records: CSV, Parquet or Excel. Without --out it is printed.",
    "confide.drafting:new_schema",
    settings="households",
    options={"file": "RECORDS", "out": "--out FILE"},
    without="columns",
    reveal=_with_text,
)


json_schema = Verb("Print the JSON Schema of the spec, for editors and programs.", "confide.api:json_schema")
signature = Verb(
    "Make the key of an office: KEYFILE stays secret, KEYFILE.pub is for everybody who receives releases.",
    "confide.releases.signature:new_signature_key",
    options={"path": Given("KEYFILE", meaning="The file for the private key; only you can read it.")},
)


# Check, rehearse, run, seal.


def at_terminal() -> bool:
    """Whether somebody looks at what is printed, and nothing else takes it."""
    return sys.stdout.isatty()


def can_answer() -> bool:
    """Whether somebody is there who can answer."""
    return sys.stdin.isatty()


def _shows_values(values: dict[str, Any]) -> None:
    if values["show_values"] and (values["as_json"] or not at_terminal()):
        raise typer.BadParameter("--show-values prints confidential values at a terminal, never to a file or as JSON")


def offending_parts(offending: Sequence[OffendingValues]) -> Iterator[AnswerPart]:
    """Values of records that break a rule, with how many there are and where the first is."""
    for column in offending:
        yield f"\n{column.file}, column {column.column!r} (confidential: for you alone)"
        values = column.values.reveal("the curator asked for them at a terminal")
        rows = [(repr(each.value or ""), f"{each.records:,}", each.place) for each in values]
        yield ShownTable(["value", "records ", "first of the "], rows)


def _with_values(checked: Checked) -> Revealed:
    """The values that break a rule after the findings, where somebody asked for them."""
    parts, number = list(checked.described()), len(checked.findings)
    return Revealed(
        checked.as_dict(), [*parts[:number], *offending_parts(checked.offending), *parts[number:]], checked.ok
    )


check = Verb(
    "List every problem of a spec and its inputs, and state the price of the release. Spends nothing.",
    "confide.api:check",
    options={
        **SPEC,
        "accept_ledger": ACCEPT,
        "show_values": Given(meaning="Also show the confidential values that break a rule. Works only on a terminal."),
    },
    prepare=_shows_values,
    reveal=_with_values,
)
rehearse = Verb(
    """Try a spec on made-up records: tables, certificate, dossier and timing. Spends nothing and reads no record.

    Everything is stamped NOT FOR RELEASE. The real records may be absent, and the real ledger is not touched.
    """,
    "confide.rehearsal:rehearse",
    settings="margins sizes expected seed",
    options={"spec": "SPEC", "margins": "--margins FILE", "sizes": "--sizes COLUMN", "expected": "--expected N"},
)


def ask_for_the_name(checked: Checked, name: str) -> None:
    """Shows the price, and has the name of the release typed; raises, with nothing charged, if it is another."""
    lines = [f"The ledger will be charged {checked.cost}. This cannot be undone, and it leaves {checked.left_after}."]
    if (price := checked.price) is not None:
        lines = [f"Price: {price.loss} ({price.neighbours.value}).", price.in_words, *lines]
    for line in lines:
        show.err.print(line, markup=False)
    try:
        typed = typer.prompt("To make this release, type its name", err=True, default="", show_default=False)
    except typer.Abort:
        typed = ""
    if typed.strip() != name:
        raise RunError("not-confirmed/you-did-type", where=Place(path="release.name"), typed=typed.strip(), name=name)


def _name_of(spec: Path) -> str:
    return str(named("confide.api:load")(spec).spec.release.name)


def _confirmed(values: dict[str, Any]) -> None:
    if not values["yes"] and can_answer():
        values["confirm"] = lambda checked: ask_for_the_name(checked, _name_of(values["spec"]))


run = Verb(
    """Make the release. After a crash or a power cut, run the same command again: it continues without a further
    charge.
    """,
    "confide.api:run",
    options={
        **SPEC,
        "insecure_key": Given(
            "--insecure-key HEX",
            meaning="For trials: a key that you choose (64 hexadecimal digits). The result is NOT FOR RELEASE.",
        ),
        "sign": Given("--sign KEYFILE", meaning=SIGN),
        "accept_ledger": ACCEPT,
    },
    extra={
        "yes": (
            Annotated[
                bool,
                typer.Option(
                    "--yes", help="Do not ask before charging the ledger. Without a terminal, Confide never asks."
                ),
            ],
            False,
        )
    },
    prepare=_confirmed,
    without="confirm",
)


def _something_to_do(values: dict[str, Any]) -> None:
    if not values["destroy_key"] and "sign" not in values:
        raise typer.BadParameter("say --destroy-key or --sign KEYFILE; a run is sealed by itself when it is complete")


seal = Verb(
    "Make a sealed release final by destroying its key, or sign it with the key of the office.",
    "confide.api:seal",
    options={**OF_RUN, "sign": Given("--sign KEYFILE", meaning=SIGN)},
    prepare=_something_to_do,
)


suppress = Verb(
    """Protect a table: hide cells that reveal too much about few people, and enough others that nobody can work
    them out.
    """,
    "confide.suppressing:suppress",
    settings="ignore missing zeros singletons method keep title formats",
    options={
        "tables": "TABLE...",
        "out": "--out",
        "total": "--total VARIABLE=CODE",
        "hierarchy": "--hierarchy VARIABLE=FILE",
        "ignore": "--ignore COLUMN",
        "formats": "--format",
    },
)


# Look at a release: verify, replay, evaluate, audit, infer, and the library in a browser.


verify = Verb(
    "Check a release folder: hashes, completeness, whole numbers, and noise as promised.",
    "confide.api:verify",
    options={
        "release": Given("RELEASE", meaning="A release folder."),
        "ledger": Given(meaning="The ledger, to check that this is the release that was sealed."),
        "public_key": Given(meaning="The office's public key, to check its signature."),
    },
)
replay = Verb(
    "Make a release again from its key, and compare every byte. Costs nothing.", "confide.api:replay", options=OF_RUN
)


def _revealed(evaluated: Evaluated) -> Revealed:
    """The accuracy, which is confidential, for the curator alone."""
    numbers = evaluated.accuracy.reveal("the curator asked for the accuracy on a terminal of the confidential zone")
    values = {"confidential": True, "dossier": str(evaluated.dossier)} | numbers
    table = named("confide.releases.dossier:headline")(numbers, "CONFIDENTIAL: released compared with true")
    return Revealed(values, [*table, f"Dossier (confidential): {evaluated.dossier}"])


evaluate = Verb(
    """Compare a release with the true counts, in a dossier for the curator only. CONFIDENTIAL.

    Several runs of the same question, made with different keys, give means over keys and intervals.
    """,
    "confide.api:evaluate",
    options={
        **SEVERAL,
        "geometry": Given(
            "--geometry LEVEL=FILE",
            meaning="A GeoJSON file with the areas of a level, for a map; default: that of the spec.",
        ),
    },
    reveal=_revealed,
)
noise = Verb(
    """Hold released minus true against the plan: laws, independence, exactly the planned draws. CONFIDENTIAL.

    It uses the truth in the confidential zone of the run and leaves a page there. Several runs show smaller errors, and
    noise that two of them have in common. Exit code 1: the noise is not as planned, or there are so few draws that
    missing noise would not have been noticed.
    """,
    "confide.api:audit_noise",
    options=SEVERAL,
)
infer = Verb(
    """Estimates with margins for any query and area, from a TopDown release or a file of noisy measurements.

    No confidential record is read and nothing is spent. Every row has two estimates: by least squares over all noisy
    measurements, and of the released records. A rule that looks at no figure says whose margin is given.
    """,
    "confide.inference.writing:infer_files",
    settings="shares difference medians quantiles ranks covariances at_once totals study formats geometry accuracy",
    options={
        "source": "SOURCE",
        "geographies": "--geography",
        "areas": "--areas FILE",
        "queries": "--query",
        "tables": "--table",
        "levels": "--level",
        "replicates": "--replicates DIR",
        "shares": "--share",
        "difference": Given("--difference A B", kind=tuple[str, str]),
        "medians": "--median",
        "quantiles": "--quantile NAME=SHARE",
        "totals": "--totals FILE",
        "study": "--study FILE",
        "spec": "--spec FILE",
        "out": "--out DIR",
        "formats": "--format",
        "geometry": "--geometry KIND=FILE",
    },
    plots=True,
)
replicate = Verb(
    """Make a TopDown release again and again from its own records, and learn what its figures are off by.

    It is post-processing: no record is read but those that are published, and nothing is spent. Everything is stamped
    NOT FOR RELEASE. After an interruption, the same command goes on.
    """,
    "confide.inference.replicates:replicate",
    settings="calibration",
    options={"release": "RELEASE", "out": "--out DIR"},
)
DEMO = "demo"


def _demonstrated_first(values: dict[str, Any]) -> None:
    named("confide.studio.serving:require_extra")()
    folder = values["folder"]
    if folder == Path(DEMO) and not (folder.is_dir() and any(folder.iterdir())):
        named(DEMONSTRATION)(folder, progress=show.Display())


studio = Verb(
    """Explore, tune and make releases in the browser. Answers this machine alone, and asks no other.

    The address that is printed lets one browser in, once.
    """,
    "confide.studio.serving:serve",
    options={
        "folder": Given("[FOLDER]", meaning="The folder to open; demo: make a small demonstration, or open it."),
        "port": Given(least=0, most=65535),
    },
    prepare=_demonstrated_first,
    without="announce",
    json=False,
)
page = Verb(
    "Write a release as one page to look at: tables with labels and margins, without a network.",
    "confide.opened:write_explore",
    options={
        "release": Given("RELEASE", meaning="The release folder, or the folder of its run."),
        "file": Given("--out FILE", meaning="The page to write.", default=Path("explore.html")),
    },
)


# Choose.


BEFORE_A_SPEC = {"cellkey": REGION}
"""What can be asked before there is a spec. Statements of cell-key releases name this command."""


def _before_a_spec(values: dict[str, Any]) -> None:
    spec, *_ = values["spec"]
    if str(spec) in BEFORE_A_SPEC and not spec.exists():
        if set(values) > {"spec", "as_json"}:
            raise typer.BadParameter(f"{spec} is no file; options are for a spec, and those of risk region for tables")
        named(BEFORE_A_SPEC[str(spec)]).ask({"as_json": values["as_json"]}, None)


tune = Verb(
    """What the choices of a spec do and what they protect from, as the studio's board; or what targets need.

    Every mechanism has a board, and --move and --set change it. Targets in words lead to the least budget and the best
    shares: closed form, from spec and frame, with binding areas, prices, and what else becomes more or less accurate.
    """,
    "confide.trade_offs:tune",
    options={
        "spec": Given(
            "SPEC",
            meaning="The spec file; several, of the same people, share one board and one total. No record is read, "
            "nothing is spent. Before there is a spec, the word cellkey: the "
            "noise that withstands attacks on the tables of the EU, as `confide risk region` finds it.",
        ),
        "targets": Given(
            "--target TARGET",
            meaning='What is wanted, in words: "total<=5 in tract @95%" for topdown, "margin<=10 in county" for '
            "tables. Budget and shares follow.",
        ),
        "moves": Given(
            "--move NAME=VALUE",
            "confide.trade_offs:parsed_choices",
            list[str],
            "What would be typed on the board; others follow.",
        ),
        "choices": Given(
            "--set NAME=VALUE",
            "confide.trade_offs:parsed_choices",
            list[str],
            "A choice, exactly; nothing else moves.",
        ),
        "locked": Given("--lock ROW", meaning="A row that keeps its part."),
        "keep_total": Given(
            "--others-follow/--budget-follows", meaning="What gives way when a row moves; others by default."
        ),
        "total": Given(meaning="What the release spends. With targets, default: what these need."),
        "out": Given(
            "--out FILE",
            meaning="Write the spec with these choices, or FILE.json as the Bureau's program has it; for "
            "targets of topdown, the strategy.",
        ),
        "people": Given(kind=str),
        "persons": Given(least=1, most=10**8),
        "margins": "--margins FILE",
        "optimise": "--best-shares/--present-shares",
        "confirm": Given("--runs", least=0, most=20),
        "prices": "--prices QUERY in AREAS",
    },
    prepare=_before_a_spec,
    also="confide.inference.tuning:tune_topdown",
)


# ``confide ledger``: what has been spent on a data set, for ever.


def _opened(ledger: Ledger) -> Revealed:
    """What the new ledger allows."""
    account = ledger.account()
    budgets = f"{account.budget}" + (f" with delta {float(account.delta):g}" if account.delta else "")
    opened = f"Opened {ledger.path}: {budgets} ({account.definition}, {account.neighbours}) for {account.data_set!r}."
    return Revealed(account.as_dict(), [opened])


ledger_open = Verb(
    "Open the ledger of a data set, once, with all that may ever be spent on it.",
    "confide.in_memory:open_ledger",
    options={"path": "LEDGER", "neighbours": Given(default="change-one")},
    reveal=_opened,
)


LEDGER = "confide.releases.ledger.book:Ledger"
OF_LEDGER: dict[str, Given | str] = {"path": Given("LEDGER", meaning="The ledger file of the data set.")}
ledger_show = Verb("Show the budget, what is spent and every release.", f"{LEDGER}.account", options=OF_LEDGER)
ledger_history = Verb(
    "Every entry of the ledger in order, with its hash. The chain of hashes is verified.",
    f"{LEDGER}.history",
    options=OF_LEDGER,
)
ledger_void = Verb(
    "Drop the reservation of a run that has drawn nothing yet, and free its cost.",
    f"{LEDGER}.void",
    options={
        **OF_LEDGER,
        "run_id": Given("RUN_ID", meaning="The id of the run, from `confide ledger show --json`."),
        "reason": Given(meaning="Why you give the reservation up."),
    },
)
ledger_reconcile = Verb(
    "Compare the ledger with the folders of its runs: finds a ledger that was cut off or put back, and lost runs.",
    "confide.api:reconcile",
    options={"ledger": Given("LEDGER", meaning="The ledger file of the data set."), "run_folders": "RUNS..."},
)
