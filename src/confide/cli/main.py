"""The command ``confide``."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from confide.cli.commands import COMMON, Later, LazyGroup, listed
from confide.cli.show import INTERNAL, INTERRUPTED, REFUSED, err, out, show_findings
from confide.errors import ConfideError, Finding, ParameterError, Place
from confide.messages import LANGUAGES, OWN_FILE, SPOKEN, unknown_places
from confide.version import __version__

MAKE, LOOK, CHOOSE, CHECK, STUDY = "Make", "Look", "Choose", "Check", "Study"
"""The headings of the list of commands."""


class Commands(LazyGroup):
    """Every command in the order of the list, with its place."""

    later = (
        Later("demo", "confide.lab.lab_commands:demo", MAKE),
        Later(
            "new",
            "confide.cli.verbs:new",
            MAKE,
            {
                "schema": "confide.cli.verbs:schema",
                "signature": "confide.cli.verbs:signature",
                "json-schema": "confide.cli.verbs:json_schema",
            },
        ),
        Later("check", "confide.cli.verbs:check", MAKE),
        Later("rehearse", "confide.cli.verbs:rehearse", MAKE),
        Later("run", "confide.cli.verbs:run", MAKE),
        Later("seal", "confide.cli.verbs:seal", MAKE),
        Later("suppress", "confide.cli.verbs:suppress", MAKE),
        Later("cellkey", "confide.cli.main:cellkeys", MAKE),
        Later("safetab", "confide.cli.main:safetabs", MAKE),
        Later("safetab-h", "confide.cli.main:safetab_hs", MAKE, row="safetab"),
        Later("phsafe", "confide.cli.main:phsafes", MAKE, row="safetab"),
        Later("import", "confide.cli.main:imports", MAKE),
        Later("studio", "confide.cli.verbs:studio", LOOK, {"page": "confide.cli.verbs:page"}),
        Later("infer", "confide.cli.verbs:infer", LOOK, {"replicate": "confide.cli.verbs:replicate"}),
        Later("evaluate", "confide.cli.verbs:evaluate", LOOK),
        Later("tune", "confide.cli.verbs:tune", CHOOSE),
        Later("account", "confide.cli.main:accounts", CHOOSE),
        Later("ledger", "confide.cli.main:ledgers", CHECK),
        Later("verify", "confide.cli.verbs:verify", CHECK),
        Later("replay", "confide.cli.verbs:replay", CHECK),
        Later("audit", "confide.cli.main:audits", CHECK),
        Later("risk", "confide.cli.main:risks", STUDY),
        Later("attack", "confide.cli.main:attacks", STUDY),
        Later("compare", "confide.lab.lab_commands:compare", STUDY),
    )


VERBS, METHODS, LAB = "confide.cli.verbs", "confide.cli.methods", "confide.lab.lab_commands"
risks = listed(
    "Compute what others could learn from a release. Reads no records.",
    LAB,
    "bayes hierarchy invariants curve release=release_risk bound averaging areas region profile",
)
attacks = listed(
    "Attack published tables: reconstruct records, identify people, compute.",
    LAB,
    "reconstruct reidentify arithmetic statistics tabulate",
)
audits = listed(
    "Audit suppressed tables, the privacy of mechanisms, and the noise of a run.",
    LAB,
    "suppression privacy",
    noise=f"{VERBS}:noise",
)
imports = listed(
    "Make files of persons and blocks: of published files, or of made-up people.", LAB, "pl94 made-up=made_up"
)
ledgers = listed(
    "The ledger of a data set: open it, show it, reconcile it.",
    VERBS,
    "open=ledger_open show=ledger_show history=ledger_history reconcile=ledger_reconcile void=ledger_void",
)
safetabs = listed(
    "Run SafeTab-P with the folders and arguments of the Census Bureau's program. The commands confide safetab-h and "
    "confide phsafe do so for SafeTab-H and PHSafe.",
    METHODS,
    "validate execute convert=convert_official coterminous tune",
)
safetab_hs = listed(
    "Run SafeTab-H with the folders and arguments of the Census Bureau's program.",
    METHODS,
    "validate=validate_h execute=execute_h convert=convert_h",
)
phsafes = listed(
    "Run PHSafe with the files and arguments of the Census Bureau's program.",
    METHODS,
    "validate=validate_households execute=execute_households convert=convert_households estimate=estimate_households "
    "exact=exact_households",
)
cellkeys = listed(
    "The cell key method: give keys to records, answer tables on request, and make tables of noise.",
    METHODS,
    "keys table perturb ptable abs-table=abs_noise",
)
accounts = listed(
    "Privacy accounting: convert budgets, compare definitions, and say what noise does.",
    METHODS,
    "convert release strategy",
    noise="confide.cli.main:noises",
)
noises = listed(
    "Noise distributions: probabilities, quantiles, noise margins, promises.",
    METHODS,
    "pmf quantile margin",
    compare=f"{LAB}:compare_noise",
)

app = typer.Typer(
    name="confide",
    cls=Commands,
    help="Confide turns confidential census records into statistics that may be published. It states how much privacy "
    "they cost and how accurate they are, and lets anyone verify the published files.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog="\n\n".join(
        ["Many commands also take:", *(f"[bold cyan]{name}[/]  {said}" for name, said in COMMON.items())]
    ),
)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        out.print(f"confide {__version__}")
        raise typer.Exit


def check_language() -> None:
    """Refuses a language of findings that has no texts, before anything is said in another one."""
    language = os.environ.get(SPOKEN)
    where = Place(path=SPOKEN)
    if language is None or language in LANGUAGES:
        return
    if not language.endswith(OWN_FILE):
        languages = ", ".join(LANGUAGES)
        raise ParameterError("unknown-language", where=where, found=language, variable=SPOKEN, languages=languages)
    try:
        wrong = list(unknown_places(language))
    except (OSError, ValueError, AttributeError) as error:
        found = getattr(error, "strerror", None) or str(error)
        raise ParameterError(
            "unknown-language/file", where=Place(file=language), found=found, variable=SPOKEN
        ) from None
    if wrong:
        raise ParameterError(
            Finding.of(
                "unknown-language/place",
                where=Place(file=language),
                variable=SPOKEN,
                key=key,
                field=field,
                places=places,
            )
            for key, field, places in wrong
        )


def main() -> None:
    """The entry point. Exit codes: 0 done, 1 findings or refused, 2 usage, 3 internal error, 130 interrupted."""
    as_json = "--json" in sys.argv
    try:
        check_language()
        app()
    except ConfideError as error:
        show_findings(error.findings, as_json=as_json)
        sys.exit(REFUSED)
    except MemoryError:
        from confide.releases.workspace import out_of_memory

        show_findings([out_of_memory(Path())], as_json=as_json)
        sys.exit(REFUSED)
    except (KeyboardInterrupt, SystemExit) as ending:
        # Typer makes an exit of an interruption, and says nothing of it.
        if isinstance(ending, SystemExit) and ending.code != INTERRUPTED:
            raise
        err.print("Interrupted. Run the same command again to continue.")
        sys.exit(INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - the last resort: no stack trace, which might show a value, unless asked for
        _internal(error)
        sys.exit(INTERNAL)


def _internal(error: Exception) -> None:
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}:{last.lineno}"
    err.print(f"[bold red]Internal error[/] ({type(error).__name__} at {place}).")
    err.print("A release that was already sealed stays as it is. Nothing else was released.")
    err.print("Please report this error. CONFIDE_DEBUG=1 prints more details, which may include confidential values.")
    if os.environ.get("CONFIDE_DEBUG") == "1":
        traceback.print_exception(error)


if __name__ == "__main__":
    main()
