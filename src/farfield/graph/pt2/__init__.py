"""``.pt2`` files, as ``torch.export.save`` writes them, read without PyTorch's own loader."""
