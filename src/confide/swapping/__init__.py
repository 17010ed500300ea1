"""Record swapping: some households exchange their places before anything is tabulated."""
