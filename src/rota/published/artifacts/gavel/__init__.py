"""Gavel as its authors' simulator and Sia's carry it out."""
