"""The algorithms behind `fedwad.distance`: FedWaD's rounds, and estimates from summaries."""
