"""Measured tables: `make bench` prints them, `make bench-json` writes them for machines."""
