"""Hostile files for every reader: mutations of whole files, watched while they are read.

``make fuzz SECONDS=600`` runs all of them for as long as one likes; the tests run a few of each.
A case is a function of its seed and number alone, so that whatever is found can be seen again.
"""
