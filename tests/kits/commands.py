"""The command line as a person types it, in this process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from typer.testing import CliRunner, Result

from confide.cli.main import app
from confide.errors import ConfideError


def run(*arguments: object) -> str:
    """What a command that succeeds prints."""
    result = _invoke(arguments)
    if result.exit_code:
        raise AssertionError(result.output) from result.exception
    return result.stdout


def run_json(*arguments: object) -> Any:
    """What it prints for programs."""
    return json.loads(run(*arguments, "--json"))


def codes(*arguments: object) -> list[str]:
    """The codes of the findings with which a command refuses."""
    result = _invoke(arguments)
    assert isinstance(result.exception, ConfideError), result.output
    return [finding.code for finding in result.exception.findings]


def usage(*arguments: object) -> str:
    """What it says where it was called wrongly."""
    result = _invoke(arguments)
    assert result.exit_code == 2, result.output
    return result.stderr


def _invoke(arguments: Sequence[object]) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])
