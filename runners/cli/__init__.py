"""The command line: nouns, then verbs. Data on stdout, everything else on stderr; it holds no logic of its own."""
