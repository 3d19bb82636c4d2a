"""The algorithms behind `fedwad.matrix`: from summaries, through a hub, or pair by pair."""
