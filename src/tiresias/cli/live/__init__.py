"""The commands that talk to a running manager, one file a noun or verb. They use its HTTP API only."""
