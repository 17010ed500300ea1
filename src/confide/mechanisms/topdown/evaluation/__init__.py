"""The release against the truth, and against what the noise promises."""
