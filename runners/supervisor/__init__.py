"""The supervisor behind ``fireledger up``: one machine's broker and runners, each its own process."""
