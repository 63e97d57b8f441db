"""The messages of `proto/lineage.proto`; their types are in the `.pyi` beside this file."""

from lineage_store.eventlog.mindspore.wire import module_contents

globals().update(module_contents("lineage.proto"))
