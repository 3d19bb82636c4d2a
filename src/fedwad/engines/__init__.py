"""Engines: the same algorithms on Flower and on NVIDIA FLARE. Each is an extra and loads when it is
used."""
