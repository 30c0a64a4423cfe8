"""A moment as a value: what a policy saw and remembered, stored, sent elsewhere, built anew."""
