"""What a round does: one algorithm, one file, one frozen parameter class."""
