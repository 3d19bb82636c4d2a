"""How `fedwad.coreset` works inside: seeding, the union of the clients, and the paper's way."""
