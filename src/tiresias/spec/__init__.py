"""The specification of a job: everything that a user may ask for, described once. Standard library only."""
