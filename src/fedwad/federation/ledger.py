"""The record of everything that was asked of a client, and of what left it."""

from __future__ import annotations

from fedwad.federation._ledger_file import FileLedger
from fedwad.federation._ledger_lines import Entry, Outcome
from fedwad.federation._ledger_memory import Ledger, lock_all, read_ledger

__all__ = ["Entry", "FileLedger", "Ledger", "Outcome", "lock_all", "read_ledger"]
