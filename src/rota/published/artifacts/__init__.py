"""One folder for each paper whose published code departs from it."""
