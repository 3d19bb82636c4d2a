"""The algorithms behind `fedwad.coreset`: first atoms, the union, the paper's epochs."""
