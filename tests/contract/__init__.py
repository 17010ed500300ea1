"""What every mechanism owes: whichever is registered is held to it, by the same tests."""
