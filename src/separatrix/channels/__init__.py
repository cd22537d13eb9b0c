"""Channels from a posterior and a group to a prediction: the rules (`rules`), the path for K labels (`softmax`), and the
channels that show the least violation on unseen rows (`steady`)."""

from separatrix.channels.rules import SoftmaxChannel, ThresholdChannel, binary_score
from separatrix.channels.softmax import SoftmaxPath, softmax_path
from separatrix.channels.steady import steady_channels

__all__ = ["SoftmaxChannel", "SoftmaxPath", "ThresholdChannel", "binary_score", "softmax_path", "steady_channels"]
