"""SafeTab-H and PHSafe by the functions that all of the Census Bureau's programs share."""

from __future__ import annotations

from functools import partial

from confide.official_runs import convert, execute, validate

validate_h = partial(validate, program="safetab-h")
execute_h = partial(execute, program="safetab-h")
convert_h = partial(convert, program="safetab-h")
validate_households = partial(validate, program="phsafe")
execute_households = partial(execute, program="phsafe")
convert_households = partial(convert, program="phsafe")
