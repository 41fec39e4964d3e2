"""What `--demo` shows: a tenant with a few triggers, and the executors they fire at."""
