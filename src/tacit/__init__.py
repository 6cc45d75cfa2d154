"""tacit: federated recommendation with private histories and honest numbers."""
