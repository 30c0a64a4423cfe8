"""HiveD: virtual clusters of cells, guaranteed by buddy allocation."""
