"""Channels from a posterior and a group to a prediction: the rules (`rules`), and the path for K labels (`softmax`)."""

from separatrix.channels.rules import SoftmaxChannel, ThresholdChannel, binary_score
from separatrix.channels.softmax import SoftmaxPath, softmax_path

__all__ = ["SoftmaxChannel", "SoftmaxPath", "ThresholdChannel", "binary_score", "softmax_path"]
