"""How a round is executed; nothing in here knows an algorithm's name."""
