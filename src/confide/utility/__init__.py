"""What a release is worth: its error, measured where the truth may be used."""

from confide.utility.accuracy import SIZE_CLASSES, ErrorSums, by_size_class, error_sums

__all__ = ["SIZE_CLASSES", "ErrorSums", "by_size_class", "error_sums"]
