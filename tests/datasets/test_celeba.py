"""CelebA in miniature: the official layout, the sign convention, the embedding, and resuming it
after a kill.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from separatrix import datasets
from separatrix.datasets import celeba as celeba_file
from separatrix.errors import DataError, InputError, MissingExtraError

N = 10
SMILING = [1, -1, 1, 1, -1, -1, 1, -1, 1, -1]  # as `make_celeba` writes them
MALE = [-1, -1, 1, -1, 1, 1, 1, -1, -1, 1]


@pytest.fixture
def celeba(own_data: Path, make_celeba: Callable[[Path], Path]) -> Path:
    return make_celeba(own_data / "celeba")


@pytest.fixture
def ready(celeba: Path, tmp_path: Path) -> Path:
    return (celeba / "ready.npy").rename(tmp_path / "ready.npy")


def tiny_weights(path: Path) -> Path:
    """Random tensors with ResNet18's names and an eighth of a hundredth of its size."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    weights: dict[str, object] = {}

    def layer(convolution: str, norm: str, out: int, inside: int, size: int) -> None:
        weights[f"{convolution}.weight"] = torch.randn(out, inside, size, size) / (inside * size * size) ** 0.5
        for part, value in (("weight", 1.0), ("bias", 0.1), ("running_mean", 0.0), ("running_var", 1.0)):
            weights[f"{norm}.{part}"] = torch.full((out,), value)

    layer("conv1", "bn1", 4, 3, 7)
    for stage, (inside, out) in enumerate(((4, 4), (4, 6), (6, 8), (8, 12)), 1):
        layer(f"layer{stage}.0.conv1", f"layer{stage}.0.bn1", out, inside, 3)
        layer(f"layer{stage}.0.conv2", f"layer{stage}.0.bn2", out, out, 3)
        layer(f"layer{stage}.1.conv1", f"layer{stage}.1.bn1", out, out, 3)
        layer(f"layer{stage}.1.conv2", f"layer{stage}.1.bn2", out, out, 3)
        if stage > 1:
            layer(f"layer{stage}.0.downsample.0", f"layer{stage}.0.downsample.1", out, inside, 1)
    torch.save(weights, path)
    return path


def test_minus_one_is_no_and_one_is_yes(celeba: Path, ready: Path) -> None:
    data = datasets.load("celeba", embeddings=ready)
    assert data.y.tolist() == [sign == 1 for sign in SMILING]
    assert data.z.tolist() == [sign == 1 for sign in MALE]
    assert (data.labels, data.groups) == (("not Smiling", "Smiling"), ("not Male", "Male"))
    assert data.columns["partition"].tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]  # type: ignore[union-attr]
    assert data.X.shape == (N, 512)
    swapped = datasets.load("celeba", embeddings=ready, target="Male", sensitive="Smiling")
    assert np.array_equal(swapped.y, data.z)


def test_a_ready_npy_is_memory_mapped_and_a_npz_is_read(celeba: Path, ready: Path, tmp_path: Path) -> None:
    mapped = datasets.load("celeba", embeddings=ready)
    assert isinstance(mapped.X, np.memmap)
    assert mapped.prepared(np.arange(5))[0] is mapped.X
    np.savez(tmp_path / "ready.npz", embeddings=np.load(ready).astype(np.float64))
    packed = datasets.load("celeba", embeddings=tmp_path / "ready.npz")
    assert packed.X.dtype == np.float32
    assert np.array_equal(packed.X, mapped.X)


def test_the_official_subfolders_are_found_too(celeba: Path, ready: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    (other / "Anno").mkdir(parents=True)
    (other / "Eval").mkdir()
    (celeba / "list_attr_celeba.txt").rename(other / "Anno" / "list_attr_celeba.txt")
    (celeba / "list_eval_partition.txt").rename(other / "Eval" / "list_eval_partition.txt")
    assert len(datasets.load("celeba", folder=other, embeddings=ready)) == N


def test_the_embedding_is_made_once(celeba: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = tiny_weights(tmp_path / "tiny.pth")
    first = datasets.load("celeba", weights=weights, batch=4)
    assert first.X.shape == (N, 12)
    assert isinstance(first.X, np.memmap)
    assert len({row.tobytes() for row in np.asarray(first.X)}) == N
    monkeypatch.setattr(celeba_file, "imagenet_pixels", lambda path: pytest.fail("embedded twice"))
    again = datasets.load("celeba", weights=weights)
    assert np.array_equal(again.X, first.X)
    assert [path.suffix for path in (cache / "celeba").iterdir()] == [".npy"]


def test_other_batches_give_the_same_features(celeba: Path, cache: Path, tmp_path: Path) -> None:
    weights = tiny_weights(tmp_path / "tiny.pth")
    one = np.array(datasets.load("celeba", weights=weights, batch=1).X)
    for path in (cache / "celeba").iterdir():
        path.unlink()
    assert np.allclose(datasets.load("celeba", weights=weights, batch=7).X, one, atol=1e-6)


def test_a_killed_embedding_is_resumed(celeba: Path, tmp_path: Path) -> None:
    """SIGKILL in the fourth batch: three batches stay, and only the rest is computed again."""
    target = tmp_path / "out" / "features.npy"
    images = sorted((celeba / "img_align_celeba").iterdir())
    code = f"""
import os, signal, numpy as np
from pathlib import Path
from separatrix.datasets.celeba import embed
calls = []
def network(pixels):
    calls.append(1)
    if len(calls) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return pixels.mean((2, 3))
images = sorted(Path({str(images[0].parent)!r}).iterdir())
embed(images, Path({str(target)!r}), network, batch=2)
"""
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert not target.exists()
    seen: list[int] = []

    def network(pixels: np.ndarray) -> np.ndarray:
        seen.append(len(pixels))
        return pixels.mean((2, 3))

    celeba_file.embed(images, target, network, batch=2)
    assert seen == [2, 2]
    celeba_file.embed(images, tmp_path / "whole.npy", network, batch=2)
    assert np.array_equal(np.load(target), np.load(tmp_path / "whole.npy"))
    assert os.listdir(target.parent) == ["features.npy"]


def test_other_weights_or_images_are_embedded_anew(celeba: Path, cache: Path, tmp_path: Path) -> None:
    weights = tiny_weights(tmp_path / "tiny.pth")
    first = np.array(datasets.load("celeba", weights=weights).X)
    image = celeba / "img_align_celeba" / "000004.jpg"
    image.write_bytes((celeba / "img_align_celeba" / "000005.jpg").read_bytes())
    changed = datasets.load("celeba", weights=weights).X
    assert [bool(row) for row in (changed != first).any(1)] == [i == 3 for i in range(N)]
    other = tiny_weights(tmp_path / "other.pth")
    other.write_bytes(other.read_bytes() + b" ")
    datasets.load("celeba", weights=other)
    assert len(list((cache / "celeba").iterdir())) == 3


def test_pixels_are_as_torchvision_prepares_them(tmp_path: Path) -> None:
    """Short side 256, centre 224, ImageNet's mean and spread."""
    from PIL import Image

    left_white = np.zeros((218, 178, 3), np.uint8)
    left_white[:, :89] = 255
    Image.fromarray(left_white).save(tmp_path / "half.png")
    pixels = celeba_file.imagenet_pixels(tmp_path / "half.png")
    assert pixels.shape == (3, 224, 224)
    assert pixels.dtype == np.float32
    assert np.allclose(pixels[:, 100, 5], (1 - celeba_file._MEAN) / celeba_file._SPREAD, atol=1e-5)
    assert np.allclose(pixels[:, 100, -5], -celeba_file._MEAN / celeba_file._SPREAD, atol=1e-5)
    assert abs(np.flatnonzero(pixels[0, 100] < 0)[0] - 112) <= 2  # the edge stays in the middle


def test_without_pillow_the_extra_is_named(celeba: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(MissingExtraError, match=r"separatrix\[data\]"):
        celeba_file.imagenet_pixels(celeba / "img_align_celeba" / "000004.jpg")


def test_there_is_never_a_random_network(celeba: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    with pytest.raises(DataError, match=r"no weight file .*torch/hub/checkpoints/resnet18-f37072fd\.pth"):
        datasets.load("celeba")
    with pytest.raises(DataError, match="There is no weight file nowhere"):
        datasets.load("celeba", weights="nowhere.pth")
    damaged = tmp_path / "torch/hub/checkpoints/resnet18-f37072fd.pth"
    damaged.parent.mkdir(parents=True)
    tiny_weights(damaged)
    with pytest.raises(DataError, match="is damaged: its sha256 begins with"):
        datasets.load("celeba")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((N - 1, 512), np.float32), "one row of numbers for each of 10 images, got 1 array of float32"),
        (np.full((N, 4), np.nan, np.float32), "NaN or infinite"),
        (np.array([["a"]] * N), "one row of numbers"),
        (np.array([[{}]] * N), "is not a whole"),
    ],
    ids=["rows", "nan", "text", "objects"],
)
def test_wrong_embeddings_are_refused(celeba: Path, tmp_path: Path, array: np.ndarray, message: str) -> None:
    np.save(tmp_path / "wrong.npy", array, allow_pickle=True)
    with pytest.raises(DataError, match=message):
        datasets.load("celeba", embeddings=tmp_path / "wrong.npy")


def test_a_truncated_embedding_is_refused(celeba: Path, ready: Path) -> None:
    ready.write_bytes(ready.read_bytes()[:-100])
    with pytest.raises(DataError, match="is not a whole"):
        datasets.load("celeba", embeddings=ready)
    with pytest.raises(DataError, match=r"is not a whole .*No such file"):
        datasets.load("celeba", embeddings=ready.with_name("gone.npy"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("10\n", "11\n", "announces 11 images and holds 10"),
        ("000003.jpg   1  1  1", "000003.jpg   1  1  0", "attribute Smiling must be -1 or 1"),
        ("000003.jpg   1  1  1", "000003.jpg   1  1", "a row has 3 fields"),
        ("10\nMale", "Male", "must begin with the number of images"),
    ],
)
def test_a_changed_attribute_file_is_an_error(celeba: Path, ready: Path, old: str, new: str, message: str) -> None:
    path = celeba / "list_attr_celeba.txt"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(DataError, match=message):
        datasets.load("celeba", embeddings=ready)


def test_other_damage_is_named(celeba: Path, ready: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no attribute 'Smile'; it has Male, Young, Smiling"):
        datasets.load("celeba", embeddings=ready, target="Smile")
    weights = tiny_weights(tmp_path / "tiny.pth")
    image = celeba / "img_align_celeba" / "000004.jpg"
    image.write_bytes(image.read_bytes()[:300])
    with pytest.raises(DataError, match=r"000004\.jpg is not a whole image"):
        datasets.load("celeba", weights=weights)
    image.unlink()
    with pytest.raises(DataError, match=r"lacks 1 of 10 images, such as 000004\.jpg"):
        datasets.load("celeba", weights=weights)
    (celeba / "list_eval_partition.txt").write_text("000001.jpg 0\n")
    with pytest.raises(DataError, match="does not list the images"):
        datasets.load("celeba", embeddings=ready)
    (celeba / "list_eval_partition.txt").unlink()
    with pytest.raises(DataError, match=r"list_eval_partition\.txt is not in"):
        datasets.load("celeba", embeddings=ready)


def test_without_the_folder_it_says_what_to_put_where(own_data: Path) -> None:
    with pytest.raises(DataError, match=rf"list_eval_partition\.txt into {own_data}/celeba"):
        datasets.load("celeba")
