"""The algorithms behind `fedwad.coreset`: first atoms, the union of the sites, the paper's epochs."""
