"""The command ``confide``."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from confide.cli.show import INTERNAL, REFUSED, err, out, show_findings
from confide.errors import ConfideError
from confide.version import __version__

# A group of commands that are listed now and loaded when one of them is called.
#
# To list a command takes its name and one line; to run it takes its module, which may import solvers and engines. So a
# :class:`LazyGroup` holds a stand-in for each (:class:`Later`). Help and shell completion see the stand-ins; what is
# called, asked for its own help or completed further is resolved first, and resolving loads it.


class Later(TyperCommand):
    """A command, or a group of commands, at a place ``module:object`` that is not imported yet.

    The line is the first paragraph of its own help.
    """

    def __init__(self, name: str, place: str, line: str):
        super().__init__(name, help=line)
        self.called, self.place = name, place

    def load(self) -> Any:
        """The command itself, made as any other command of a Typer application is made."""
        module, _, name = self.place.partition(":")
        command = getattr(import_module(module), name)
        around = typer.Typer(rich_markup_mode=self.rich_markup_mode)
        if isinstance(command, typer.Typer):
            around.add_typer(command, name=self.called)
        else:
            around.command(self.called)(command)
        return typer.main.get_group(around).commands[self.called]


class LazyGroup(TyperGroup):
    """A group that begins with stand-ins; commands that are registered as usual come after them."""

    later: ClassVar[tuple[Later, ...]] = ()

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        self.commands = {command.called: command for command in self.later} | dict(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is called by the first argument, loaded."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, Later) else command, rest


class Commands(LazyGroup):
    """Every command in the order of the list, with its line and its place."""

    later = (
        Later(
            "demo",
            "confide.cli.start:demo",
            "Whole releases of made-up people, with ledger, certificate, verification, and a dossier with pictures.",
        ),
        Later(
            "new", "confide.cli.start:new", "Write a commented spec to start from, or a schema for a file of records."
        ),
        Later(
            "check",
            "confide.cli.verbs:check",
            "Find every problem of a spec and its inputs at once, and say what the release costs. Nothing is spent.",
        ),
        Later(
            "rehearse",
            "confide.cli.rehearse:rehearse",
            "Try a spec on made-up records: tables, certificate, dossier and timing. "
            "Nothing is spent, no record is read.",
        ),
        Later(
            "run",
            "confide.cli.verbs:run",
            "Make the release. After a crash or a power cut, run the same command again: "
            "it continues at no further cost.",
        ),
        Later(
            "verify",
            "confide.cli.verbs:verify",
            "Read a release again from its files: hashes, completeness, whole numbers, and noise as promised.",
        ),
        Later(
            "evaluate",
            "confide.cli.verbs:evaluate",
            "Compare a release with the truth, for the curator alone: a dossier with pictures. CONFIDENTIAL.",
        ),
        Later(
            "replay",
            "confide.cli.verbs:replay",
            "Make a release a second time from the kept key, and compare every byte. It costs nothing.",
        ),
        Later(
            "seal",
            "confide.cli.verbs:seal",
            "Make a sealed release final by destroying its key, or sign it with the key of the office.",
        ),
        Later(
            "suppress",
            "confide.cli.suppress:suppress",
            "Protect tables of cells: hide those that say too much of few, and others so that none can be worked out.",
        ),
        Later(
            "infer",
            "confide.cli.infer:infer",
            "Estimates with margins for any query and any area, from a TopDown release or a file of noisy measurements.",
        ),
        Later(
            "replicate",
            "confide.cli.replicate:replicate",
            "Make a TopDown release again and again from its own records, and learn what its figures are off by.",
        ),
        Later("schema", "confide.cli.verbs:schema", "Print the JSON Schema of the spec, for editors and programs."),
        Later(
            "synthesize",
            "confide.cli.start:synthesize",
            "Make up people: places, households, group quarters. Nothing in it comes from a real person.",
        ),
        Later(
            "ptable",
            "confide.cli.perturbation:ptable",
            "A perturbation table: for each count the noise of maximum entropy, and its certificate; "
            "refused if infeasible.",
        ),
        Later(
            "compare",
            "confide.cli.compare:compare",
            "Protect the same people in several ways, attack each, and write one page: DIR/comparison.html.",
        ),
        Later("import", "confide.cli.start:imports", "Make person and block files out of published ones."),
        Later("ledger", "confide.cli.ledger:app", "The ledger of a data set: open, show, reconcile."),
        Later("signature", "confide.cli.verbs:signature", "The key with which an office signs its releases."),
        Later("account", "confide.cli.accounts:app", "Privacy accounting: convert budgets, compare definitions."),
        Later("noise", "confide.cli.noise:app", "The noise laws: probabilities, quantiles, noise margins, promises."),
        Later("tune", "confide.cli.tune:app", "Choose budgets: what they buy and what they cost. No records are read."),
        Later("risk", "confide.cli.risk:app", "What a release lets others learn. No records are read."),
        Later(
            "attack", "confide.cli.attack:app", "What someone can do with published tables who wants the records back."
        ),
        Later(
            "audit",
            "confide.cli.audit:app",
            "Judge tables and mechanisms by what can be worked out from them, and noise by its plan.",
        ),
        Later(
            "safetab",
            "confide.cli.safetab:app",
            "SafeTab-P with the folders and arguments of the Census Bureau's own program.",
        ),
        Later("cellkey", "confide.cli.cellkey:app", "The cell key method: keys for records, and tables on request."),
    )


app = typer.Typer(
    name="confide",
    cls=Commands,
    help="From confidential census records to statistics that may be published: what they cost in privacy, what they "
    "are worth, and proof that they are what they say.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        out.print(f"confide {__version__}")
        raise typer.Exit


def main() -> None:
    """The entry point. Exit codes: 0 done, 1 findings or refused, 2 usage, 3 internal error."""
    as_json = "--json" in sys.argv
    try:
        app()
    except ConfideError as error:
        show_findings(error.findings, as_json=as_json)
        sys.exit(REFUSED)
    except KeyboardInterrupt:
        err.print("Interrupted. Run the same command again to go on.")
        sys.exit(130)
    except Exception as error:  # noqa: BLE001 - the last resort: no stack trace, which might show a value, unless asked for
        _internal(error)
        sys.exit(INTERNAL)


def _internal(error: Exception) -> None:
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}:{last.lineno}"
    err.print(f"[bold red]Internal error[/] ({type(error).__name__} at {place}).")
    err.print("What was already sealed stays; nothing else was released.")
    err.print("Please report it. CONFIDE_DEBUG=1 shows more, which may include confidential values.")
    if os.environ.get("CONFIDE_DEBUG") == "1":
        traceback.print_exception(error)


if __name__ == "__main__":
    main()
