"""The names that the examples of the documentation assume: `create_dataset`, `LeNet5`, a directory to write to."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import dataset as ds
from mindspore import nn

ms.set_device("CPU")


def create_dataset() -> ds.Dataset:
    """In place of MNIST: random pictures of 32x32, four batches of eight."""
    random = np.random.default_rng(1)
    images = random.random((32, 1, 32, 32), dtype=np.float32)
    labels = random.integers(0, 10, 32, dtype=np.int32)
    return ds.NumpySlicesDataset((images, labels), ["image", "label"], shuffle=False).batch(8)


class LeNet5(nn.Cell):
    """The documentation's network."""

    def __init__(self, num_class: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, pad_mode="valid")
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode="valid")
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2, 2)
        self.flatten = nn.Flatten()
        self.fc = nn.Dense(16 * 5 * 5, num_class)

    def construct(self, images: ms.Tensor) -> ms.Tensor:
        features = self.pool(self.relu(self.conv1(images)))
        return self.fc(self.flatten(self.pool(self.relu(self.conv2(features)))))
