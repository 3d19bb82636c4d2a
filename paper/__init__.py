"""The experiments of the paper, beside our methods and the exact distances."""
