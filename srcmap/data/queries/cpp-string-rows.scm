; Rows of a table of strings: an initializer list, or a make_pair call, inside an initializer list.
; @row begins with a string; @name are the strings directly in it, @table is what holds the row.
(initializer_list
  (initializer_list (string_literal)) @row) @table

(initializer_list
  (call_expression
    arguments: (argument_list (string_literal)) @row)) @table
