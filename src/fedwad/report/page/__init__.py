"""The report: one HTML file to read, print and share. It loads nothing and stores nothing."""
