"""Training on one machine: networks, SGD on the samples of one client or of many at once, and an
autoencoder.

The modules need PyTorch (the extra `learn`), so import them where they are used.
"""
