"""Real managers killed with SIGKILL while real trainings run, and what the kernel says of them."""
