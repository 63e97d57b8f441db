"""Events to rows, pure: which table, which column, what NaN and text become."""
