"""Predictions of finished runs: models as one ensemble, their uncertainty and its calibration, and tables of any size."""
