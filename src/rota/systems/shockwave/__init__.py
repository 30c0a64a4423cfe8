"""Shockwave: rounds planned ahead for fair progress, with changes of pace foreseen."""
