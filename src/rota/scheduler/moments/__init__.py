"""A moment as a value: what a policy saw and remembered, to be stored, sent elsewhere and rebuilt."""
