"""Kills real managers with SIGKILL while real trainings run, and checks /proc and the files of the runs."""
