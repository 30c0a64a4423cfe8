"""Tiresias: least attained service in few queues."""
