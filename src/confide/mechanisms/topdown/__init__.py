"""TopDown: consistent, whole, non-negative microdata down a spine (the system of the 2020 Census)."""
