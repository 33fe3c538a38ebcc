"""Data in: tables and images from files, arrays and frames, and what is known about them.

Readers refuse what they cannot use, and never run anything that a file holds.
"""
