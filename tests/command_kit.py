"""The command line as a person types it, in this process."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from confide.cli.main import app
from confide.errors import ConfideError


def run(*arguments: object) -> str:
    """What a command that succeeds prints."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exit_code:
        raise AssertionError(result.output) from result.exception
    return result.stdout


def run_json(*arguments: object) -> Any:
    """What it prints for programs."""
    return json.loads(run(*arguments, "--json"))


def codes(*arguments: str) -> list[str]:
    """The codes of the findings with which a command refuses."""
    result = CliRunner().invoke(app, list(arguments))
    assert isinstance(result.exception, ConfideError), result.output
    return [finding.code for finding in result.exception.findings]
