"""The ResNet18 forward against a plain module with torchvision's layout and real batch
normalisation.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from separatrix.errors import DataError  # noqa: E402
from separatrix.nn.resnet import ResNet18, load_weights  # noqa: E402


class Block(nn.Module):
    def __init__(self, inside: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inside, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        if stride > 1:
            self.downsample = nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Any) -> Any:
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (self.downsample(x) if hasattr(self, "downsample") else x))


class Reference(nn.Module):
    """ResNet18 as published: 3×3 blocks 2-2-2-2; a narrower one for small tests."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        sizes = [width, width, 2 * width, 4 * width, 8 * width]
        for stage in (1, 2, 3, 4):
            first = Block(sizes[stage - 1], sizes[stage], 1 if stage == 1 else 2)
            setattr(self, f"layer{stage}", nn.Sequential(first, Block(sizes[stage], sizes[stage], 1)))
        self.fc = nn.Linear(8 * width, 1000)

    def forward(self, x: Any) -> Any:
        x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)


def reference(width: int = 64, seed: int = 0) -> Reference:
    """A network with random weights and batch-normalisation statistics that are not the initial
    ones.
    """
    torch.manual_seed(seed)
    network = Reference(width)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight.data, module.running_var):
                tensor.uniform_(0.5, 1.5)
            for tensor in (module.bias.data, module.running_mean):
                tensor.normal_(0, 0.3)
    return network.eval()


@pytest.mark.parametrize("width", [4, 64])
def test_the_features_are_those_of_the_module(width: int) -> None:
    network = reference(width)
    images = torch.randn(2, 3, 96, 64)
    ours = ResNet18(network.state_dict())
    with torch.no_grad():
        expected = network(images)
    assert torch.allclose(ours(images), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


def test_the_reference_has_the_published_size() -> None:
    assert sum(p.numel() for p in Reference().parameters()) == 11_689_512


def test_missing_or_misshapen_weights_are_refused() -> None:
    weights = reference(4).state_dict()
    lacking = {name: value for name, value in weights.items() if name != "layer3.0.downsample.1.running_var"}
    with pytest.raises(DataError, match=r"lack layer3\.0\.downsample\.1\.running_var: they are not"):
        ResNet18(lacking)
    with pytest.raises(DataError, match=r"of layer2\.1\.conv1 and layer2\.1\.bn1 do not fit"):
        ResNet18({**weights, "layer2.1.bn1.weight": torch.ones(3)})


def test_weight_files(tmp_path: Path) -> None:
    weights = reference(4).state_dict()
    torch.save(weights, tmp_path / "w.pth")
    assert torch.equal(load_weights(tmp_path / "w.pth")["conv1.weight"], weights["conv1.weight"])
    safetensors = pytest.importorskip("safetensors.torch")
    safetensors.save_file(weights, tmp_path / "w.safetensors")
    assert torch.equal(load_weights(tmp_path / "w.safetensors")["conv1.weight"], weights["conv1.weight"])
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "w.safetensors").read_bytes()[:1000])
    with pytest.raises(DataError, match=r"cut\.safetensors is not"):
        load_weights(tmp_path / "cut.safetensors")


class Trap:
    def __reduce__(self) -> Any:
        return (exec, ("raise SystemExit('code in a weight file was run')",))


def test_a_weight_file_runs_no_code(tmp_path: Path) -> None:
    torch.save({"conv1.weight": Trap()}, tmp_path / "trap.pth")
    (tmp_path / "plain.pth").write_bytes(pickle.dumps(Trap(), protocol=2))
    (tmp_path / "text.pth").write_bytes(b"hello")
    torch.save([1, 2], tmp_path / "list.pth")
    for name in ("trap", "plain", "text", "list"):
        with pytest.raises(DataError, match=rf"{name}\.pth"):
            load_weights(tmp_path / f"{name}.pth")
