"""From measurements to published tables: post-processing alone, so that it costs no privacy."""
