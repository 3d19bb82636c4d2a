"""Requests, replies and failures, and the codec that makes bytes of them."""
