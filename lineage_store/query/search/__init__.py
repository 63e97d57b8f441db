"""Journey of a condition: condition, tree, predicates and ordering, compiler, page, results."""
