"""The same algorithms on Flower and NVIDIA FLARE.

Each engine is an optional extra, which is imported when it is first used.
"""
