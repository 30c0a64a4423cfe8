"""Alibaba's PAI: fractions of GPUs, shortest first by history."""
