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

from confide.cli.show import INTERNAL, INTERRUPTED, REFUSED, err, out, show_findings
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
            "confide.lab.commands.people:demo",
            "Make complete releases of made-up people, with ledger, certificate, verification, and a dossier with "
            "pictures.",
        ),
        Later(
            "new", "confide.cli.start:new", "Write a commented spec to start from, or a schema for a file of records."
        ),
        Later(
            "check",
            "confide.cli.verbs:check",
            "List every problem of a spec and its inputs, and state the price of the release. Spends nothing.",
        ),
        Later(
            "rehearse",
            "confide.cli.rehearse:rehearse",
            "Try a spec on made-up records: tables, certificate, dossier and timing. "
            "Spends nothing and reads no record.",
        ),
        Later(
            "run",
            "confide.cli.verbs:run",
            "Make the release. After a crash or a power cut, run the same command again: "
            "it continues without a further charge.",
        ),
        Later(
            "verify",
            "confide.cli.verbs:verify",
            "Check a release folder: hashes, completeness, whole numbers, and noise as promised.",
        ),
        Later(
            "evaluate",
            "confide.cli.verbs:evaluate",
            "Compare a release with the true counts, in a dossier for the curator only. CONFIDENTIAL.",
        ),
        Later(
            "replay",
            "confide.cli.verbs:replay",
            "Make a release again from its key, and compare every byte. Costs nothing.",
        ),
        Later(
            "seal",
            "confide.cli.verbs:seal",
            "Make a sealed release final by destroying its key, or sign it with the key of the office.",
        ),
        Later(
            "suppress",
            "confide.cli.suppress:suppress",
            "Protect a table: hide cells that reveal too much about few people, and enough others that nobody can "
            "work them out.",
        ),
        Later(
            "infer",
            "confide.cli.infer:infer",
            "Estimates with margins for any query and area, from a TopDown release or a file of noisy measurements.",
        ),
        Later(
            "replicate",
            "confide.cli.rehearse:replicate",
            "Make a TopDown release again and again from its own records, and learn what its figures are off by.",
        ),
        Later(
            "studio",
            "confide.cli.start:studio",
            "Explore, tune and make releases in the browser. Answers this machine alone, and asks no other.",
        ),
        Later(
            "explore",
            "confide.cli.start:explore",
            "Write a release as one page to look at: tables with labels and margins, without a network.",
        ),
        Later("schema", "confide.cli.verbs:schema", "Print the JSON Schema of the spec, for editors and programs."),
        Later(
            "synthesize",
            "confide.lab.commands.people:synthesize",
            "Make up people, with places, households and group quarters. Nothing comes from a real person.",
        ),
        Later(
            "ptable",
            "confide.cli.noise:ptable",
            "Compute a perturbation table for the cell key method: for each count the noise of "
            "maximum entropy, with a proof.",
        ),
        Later(
            "compare",
            "confide.lab.commands.compare:compare",
            "Protect the same people in several ways, attack each, and write one page: DIR/comparison.html.",
        ),
        Later(
            "import", "confide.lab.commands.people:imports", "Make files of persons and blocks from published files."
        ),
        Later("ledger", "confide.cli.ledger:app", "The ledger of a data set: open it, show it, reconcile it."),
        Later("signature", "confide.cli.verbs:signature", "The key that an office signs its releases with."),
        Later("account", "confide.cli.accounts:app", "Privacy accounting: convert budgets and compare definitions."),
        Later(
            "noise",
            "confide.cli.main:noises",
            "Noise distributions: probabilities, quantiles, noise margins, promises.",
        ),
        Later(
            "tune",
            "confide.cli.tune:tune",
            "What the choices of a spec do and what they protect from, as the studio's board; or what targets need.",
        ),
        Later("risk", "confide.cli.main:risks", "Compute what others could learn from a release. Reads no records."),
        Later(
            "attack",
            "confide.lab.commands.attack:app",
            "Attack published tables: reconstruct records, identify people, compute.",
        ),
        Later(
            "audit",
            "confide.cli.main:audits",
            "Audit suppressed tables, the privacy of mechanisms, and the noise of a run.",
        ),
        Later(
            "safetab",
            "confide.cli.safetab:app",
            "Run SafeTab-P with the folders and arguments of the Census Bureau's program.",
        ),
        Later(
            "cellkey",
            "confide.cli.cellkey:app",
            "The cell key method: give keys to records, and answer tables on request.",
        ),
    )


class Risks(LazyGroup):
    """Every measure of risk, with its line and its place."""

    later = (
        Later(
            "bayes",
            "confide.lab.commands.risk_bayes:bayes",
            "What an adversary who knows everyone else learns about one person from a noisy count.",
        ),
        Later(
            "hierarchy",
            "confide.lab.commands.risk_hierarchy:hierarchy",
            "What an adversary learns about one person from counts at several levels.",
        ),
        Later(
            "invariants",
            "confide.lab.commands.risk_promises:invariants",
            "What invariants do to the promise: for one record, and for the smallest group that hides what they fix.",
        ),
        Later(
            "curve",
            "confide.lab.commands.risk_promises:curve",
            "The largest power of a test about one record at a level, and epsilon over delta, "
            "in every way that is known.",
        ),
        Later(
            "release",
            "confide.lab.commands.risk_release:release",
            "What every noisy measurement of a TopDown release, taken together, says about one person.",
        ),
        Later(
            "bound",
            "confide.lab.commands.risk_bounded:bound",
            "How many triples F + M = T reveal the largest noise, and what knowing it would give away.",
        ),
        Later(
            "averaging",
            "confide.lab.commands.risk_bounded:averaging",
            "Count the ways to have each statistic of a programme, and what averaging them would find.",
        ),
        Later(
            "areas",
            "confide.lab.commands.risk_bounded:areas",
            "What unbounded noise does to small areas: bounds that hold with some probability, "
            "and counts that are far off.",
        ),
        Later(
            "region",
            "confide.lab.commands.risk_bounded:region",
            "Bounds D and variances V that withstand averaging and protect the bound, for a programme and a country.",
        ),
        Later(
            "profile",
            "confide.lab.commands.risk_bayes:profile",
            "The largest rho for which posterior-to-prior ratios keep a profile, for all priors; and which side binds.",
        ),
    )


class Audits(LazyGroup):
    """Every audit, with its line and its place."""

    later = (
        Later(
            "suppression",
            "confide.lab.commands.audits:suppression",
            "What follows from a table about its suppressed cells: the smallest interval for each, by linear "
            "programming.",
        ),
        Later(
            "privacy",
            "confide.lab.commands.audits:privacy",
            "A lower bound of the privacy loss, from many runs on made-up neighbours, beside what the plan states.",
        ),
        Later(
            "noise",
            "confide.cli.audit:noise",
            "Hold released minus true against the plan: laws, independence, exactly the planned draws. CONFIDENTIAL.",
        ),
    )


class Noises(LazyGroup):
    """What is said of noise distributions, with its line and its place."""

    later = (
        Later("pmf", "confide.cli.noise:pmf", "The probability of values of the noise, and of values up to them."),
        Later(
            "quantile",
            "confide.cli.noise:quantile",
            "The smallest value that the noise stays at or below with a probability.",
        ),
        Later(
            "margin",
            "confide.cli.noise:margin",
            "The noise margin: the smallest distance from zero that the noise keeps within with a probability.",
        ),
        Later(
            "compare",
            "confide.lab.commands.noise_compare:compare",
            "All distributions for the same static programme: from a variance or margin and a bound, or from epsilon.",
        ),
    )


audits = typer.Typer(
    cls=Audits, help="Audit suppressed tables, the privacy of mechanisms, and the noise of a run.", no_args_is_help=True
)

noises = typer.Typer(
    cls=Noises, help="Noise distributions: probabilities, quantiles, noise margins, promises.", no_args_is_help=True
)

risks = typer.Typer(
    cls=Risks, help="Compute what others could learn from a release. Reads no records.", no_args_is_help=True
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
)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        out.print(f"confide {__version__}")
        raise typer.Exit


def main() -> None:
    """The entry point. Exit codes: 0 done, 1 findings or refused, 2 usage, 3 internal error, 130 interrupted."""
    as_json = "--json" in sys.argv
    try:
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
