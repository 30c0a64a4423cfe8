"""Gandiva_fair: GPU time in proportion to tickets; tenants trade GPU types."""
