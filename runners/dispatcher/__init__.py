"""The dispatcher: makes the attempts that books released, records each before and after, and decides nothing."""
