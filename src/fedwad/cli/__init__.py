"""The command line."""

from fedwad.cli.app import main

__all__ = ["main"]
