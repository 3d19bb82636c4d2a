"""Training on one machine: networks, plain gradient descent on one client's samples, many small
networks at once.

PyTorch (the extra `learn`) is loaded by the modules of this room, which are imported when first
needed.
"""
