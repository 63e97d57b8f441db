"""The path of a condition: condition, tree, predicates and ordering, compiler, chooser, page, results."""
