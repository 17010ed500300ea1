"""``python -m confide`` is the command ``confide``."""

from confide.cli.main import main

main()
