"""Building blocks of policies: order, fill, fit, place, size, rounds."""
