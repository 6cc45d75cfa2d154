"""Flower carries the letters between a server and its nodes; nothing of a method is here."""
