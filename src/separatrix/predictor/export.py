"""ONNX: one network as a standard graph, with the names that its inputs and outputs stand for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from separatrix.columns.groups import group_name
from separatrix.errors import InputError, MissingExtraError
from separatrix.io import write_whole
from separatrix.nn.networks import Networks

if TYPE_CHECKING:
    from separatrix.predictor.predictor import Predictor

__all__ = ["to_onnx"]

_OPSET = 17


def to_onnx(predictor: Predictor, path: Path) -> Path:
    """Write a single network as an ONNX file.

    Inputs: `X` (n, d) float32, as `Predictor.matrix` makes it, and `z` (n,) int64 group codes if
    used. Output: `posterior` (n, K) float32. The metadata hold labels, groups and preprocessing.
    """
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError as error:
        text = "ONNX export needs onnx: pip install 'separatrix[deploy]'."
        raise MissingExtraError(text) from error
    net = predictor.components[0].fitted
    if len(predictor.components) != 1 or not isinstance(net, Networks) or predictor.bases:
        raise InputError(
            "Only a single network can be exported to ONNX; this predictor is a mixture, or of "
            "another kind. Export the components: `Predictor(labels, groups, (component,), ...)`."
        )
    weights, biases = [w[0] for w in net.weights], [b[0] for b in net.biases]
    ramps = net.piecewise_linear
    width = weights[0].shape[0] - net.n_groups - len(ramps)
    inputs = [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["n", width])]
    constants = {f"bias_{i}": b for i, b in enumerate(biases)}
    constants |= {f"weight_{i}": w for i, w in enumerate(weights)}
    constants["weight_0"] = weights[0][net.n_groups :]
    nodes, x = [], "X"
    if len(ramps):
        constants |= {"piece_column": ramps.column, "piece_low": ramps.low}
        constants |= {"piece_width": ramps.width, "zero": np.float32(0.0), "one": np.float32(1.0)}
        nodes += [
            helper.make_node("Gather", ["X", "piece_column"], ["piece_x"], axis=1),
            helper.make_node("Sub", ["piece_x", "piece_low"], ["piece_above"]),
            helper.make_node("Div", ["piece_above", "piece_width"], ["piece_share"]),
            helper.make_node("Clip", ["piece_share", "zero", "one"], ["piecewise_linear"]),
            helper.make_node("Concat", ["X", "piecewise_linear"], ["X_ramps"], axis=1),
        ]
        x = "X_ramps"
    nodes.append(helper.make_node("Gemm", [x, "weight_0", "bias_0"], ["h_0"]))
    last = "h_0"
    if net.n_groups:
        inputs.append(helper.make_tensor_value_info("z", TensorProto.INT64, ["n"]))
        constants["group_weight"] = weights[0][: net.n_groups]
        nodes += [
            helper.make_node("Gather", ["group_weight", "z"], ["of_group"], axis=0),
            helper.make_node("Add", ["h_0", "of_group"], ["h_0z"]),
        ]
        last = "h_0z"
    for i in range(1, len(weights)):
        nodes += [
            helper.make_node("Relu", [last], [f"a_{i}"]),
            helper.make_node("Gemm", [f"a_{i}", f"weight_{i}", f"bias_{i}"], [f"h_{i}"]),
        ]
        last = f"h_{i}"
    nodes.append(helper.make_node("Softmax", [last], ["posterior"], axis=1))
    shape = ["n", weights[-1].shape[1]]
    outputs = [helper.make_tensor_value_info("posterior", TensorProto.FLOAT, shape)]
    tensors = [numpy_helper.from_array(np.array(a, order="C"), k) for k, a in constants.items()]
    graph = helper.make_graph(nodes, "separatrix", inputs, outputs, tensors)
    opset = [helper.make_opsetid("", _OPSET)]
    model = helper.make_model(graph, opset_imports=opset, producer_name="separatrix")
    model.ir_version = 9
    prepared = predictor.preprocessing
    helper.set_model_props(
        model,
        {
            "labels": json.dumps([str(label) for label in predictor.labels]),
            "groups": json.dumps([group_name(group) for group in predictor.groups]),
            "preprocessing": json.dumps(None if prepared is None else prepared.to_dict()),
            "columns": json.dumps(list(predictor.features if prepared is None else prepared.names)),
        },
    )
    checker.check_model(model)
    write_whole(path, model.SerializeToString(), parents=False)
    return path
