"""The manager's HTTP API, the server of it, and the Python client."""
