"""Predictor: what is deployed. One model or a revealed mixture of two; predict, save, load, export, stream."""

from __future__ import annotations

from separatrix.predictor.model import Part, Predictor
from separatrix.predictor.saving import load
from separatrix.predictor.streaming import predict_file
from separatrix.predictor.wrapping import around

__all__ = ["Part", "Predictor", "around", "load", "predict_file"]
