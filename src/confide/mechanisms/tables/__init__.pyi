from confide.mechanisms.tables.mechanism import Tables as Tables
