"""Strategies: what is measured, how it is estimated, what is kept, and what that costs."""
