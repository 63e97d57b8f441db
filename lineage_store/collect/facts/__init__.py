"""What can be read from the objects of a MindSpore training: networks, optimizers, datasets, run arguments.

In: MindSpore's objects. Out: plain values and the protobuf messages of a lineage event. Every function asks one thing,
writes nothing and keeps nothing. They raise what MindSpore raises; callers run them through `Attempts`.
"""
