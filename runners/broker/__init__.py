"""The embedded broker: its data folder, users, configuration and process."""
