"""Decision trees and ensembles of them: one form for all libraries, and readers of theirs."""
