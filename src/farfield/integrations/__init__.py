"""Audits in the tools of others: one module for each, which imports its tool when it is used."""

from farfield.integrations import mlflow

__all__ = ["mlflow"]
