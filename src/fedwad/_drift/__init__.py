"""Drift: a reference of one site, and whether new data still come from its population."""
