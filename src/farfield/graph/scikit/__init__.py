"""Fitted objects of scikit-learn as programs."""
