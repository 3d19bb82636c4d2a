"""The three ways to a matrix, each in a file."""
