"""A Flower app in the form of quickstart-pytorch."""
