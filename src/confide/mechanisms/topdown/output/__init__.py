"""What a release contains: records, microdata layouts, tables, and how they are verified."""
