"""Metrics with fixed names; where a library has one, it is used."""
