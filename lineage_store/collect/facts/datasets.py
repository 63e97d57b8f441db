"""Find the location and size of a training's data.

In: a MindSpore dataset, the end of a pipeline. Out: the directory of its first source, the number of samples, the
size of a batch. Only the sources in `_PLACES` have a directory; others, such as generators and arrays, have none.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from mindspore import dataset as sources

_OF_DIRECTORIES = (
    *(sources.ImageFolderDataset, sources.MnistDataset, sources.Cifar10Dataset),
    *(sources.Cifar100Dataset, sources.VOCDataset, sources.CelebADataset),
)
_PLACES: dict[str, tuple[type, ...]] = {
    "dataset_dir": _OF_DIRECTORIES,
    "dataset_file": (sources.ManifestDataset,),
    "dataset_files": (sources.MindDataset, sources.TFRecordDataset, sources.TextFileDataset),
}
"""The kinds of sources by the attribute that names their files."""


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """Location and size of the data at the end of a pipeline."""

    path: str | None
    """Directory of the first source; None if the pipeline names none."""
    count: int
    """Samples per epoch, rounded up to full batches."""
    batch_size: int


def facts_of(dataset: Any) -> DatasetFacts:
    """Return directory, number of samples and batch size of a pipeline."""
    batch_size = int(dataset.get_batch_size())
    return DatasetFacts(source_path(dataset), int(dataset.get_dataset_size() * batch_size), batch_size)


def source_path(dataset: Any) -> str | None:
    """Return the directory of the first source, found by following first inputs; for a file, its directory."""
    while (path := _own_path(dataset)) is None:
        if not dataset.children:
            return None
        dataset = dataset.children[0]
    return os.path.dirname(path) if os.path.isfile(path) else path


def _own_path(dataset: Any) -> str | None:
    for attribute, kinds in _PLACES.items():
        if isinstance(dataset, kinds):
            place = getattr(dataset, attribute)
            path = place if isinstance(place, str) else next(iter(place or []), None)
            return path or None
    return None
