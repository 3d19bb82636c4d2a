"""One point for each of many sites: linearised transport."""
