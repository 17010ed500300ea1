"""What someone does who wants the records back: reconstruction from published tables, and re-identification."""
