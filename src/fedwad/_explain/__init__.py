"""Why sites differ: the part of each column in a distance."""
