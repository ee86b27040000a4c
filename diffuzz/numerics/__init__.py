"""Exact arithmetic on floating-point formats, as pure tensor functions."""
