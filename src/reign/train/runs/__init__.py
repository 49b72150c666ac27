"""Runs on disk: how one is trained, what its folder holds, and how it is shared."""
