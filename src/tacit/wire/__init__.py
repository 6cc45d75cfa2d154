"""What travels between a server and its nodes: typed messages, with one version number."""
