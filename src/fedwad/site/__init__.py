"""The data holder: data, policy, store, and what a site takes from outside."""
