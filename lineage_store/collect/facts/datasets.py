"""Where the data of a training lies and how much there is.

In: a MindSpore dataset, the end of a pipeline. Out: the directory of its first source, the number of examples, the size
of a batch. Ten kinds of sources name a place on disk; of any other (generators, arrays) there is none to tell.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from mindspore import dataset as sources

_PLACES: tuple[tuple[type, str], ...] = (
    (sources.ImageFolderDataset, "dataset_dir"),
    (sources.MnistDataset, "dataset_dir"),
    (sources.Cifar10Dataset, "dataset_dir"),
    (sources.Cifar100Dataset, "dataset_dir"),
    (sources.VOCDataset, "dataset_dir"),
    (sources.CelebADataset, "dataset_dir"),
    (sources.ManifestDataset, "dataset_file"),
    (sources.MindDataset, "dataset_files"),
    (sources.TFRecordDataset, "dataset_files"),
    (sources.TextFileDataset, "dataset_files"),
)


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """Path None: the data come from no file that the pipeline names."""

    path: str | None
    count: int
    """Examples in an epoch, those that fill up the last batch included."""
    batch_size: int


def facts_of(dataset: Any) -> DatasetFacts:
    """Place, examples and batch size of a pipeline."""
    batch_size = int(dataset.get_batch_size())
    return DatasetFacts(source_path(dataset), int(dataset.get_dataset_size() * batch_size), batch_size)


def source_path(dataset: Any) -> str | None:
    """The directory of the first source, upstream along the first input; a file gives its directory."""
    while (path := _own_path(dataset)) is None:
        if not dataset.children:
            return None
        dataset = dataset.children[0]
    return os.path.dirname(path) if os.path.isfile(path) else path


def _own_path(dataset: Any) -> str | None:
    for kind, attribute in _PLACES:
        if isinstance(dataset, kind):
            place = getattr(dataset, attribute)
            path = place if isinstance(place, str) else next(iter(place or []), None)
            return path or None
    return None
