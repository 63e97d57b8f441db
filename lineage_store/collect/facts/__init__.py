"""Read facts from the objects of a MindSpore training: networks, optimizers, datasets, run arguments.

In: MindSpore's objects. Out: plain values and the protobuf messages of a lineage event. Promises: nothing is written,
and the training's objects stay unchanged. Functions raise what MindSpore raises; callers run them through `Attempts`.
"""
