"""The algorithms behind `fedwad.coreset`: seeding, the union of the sites, the paper's epochs."""
