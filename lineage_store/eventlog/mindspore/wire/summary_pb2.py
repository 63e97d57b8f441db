"""The messages of `proto/summary.proto`; their types are in the `.pyi` beside this file."""

from lineage_store.eventlog.mindspore.wire import module_contents

globals().update(module_contents("summary.proto"))
