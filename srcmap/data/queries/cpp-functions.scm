; Function definitions with a plain name.
(function_definition
  declarator: [
    (function_declarator declarator: [(identifier) (qualified_identifier)] @name)
    (pointer_declarator (function_declarator declarator: [(identifier) (qualified_identifier)] @name))
    (reference_declarator (function_declarator declarator: [(identifier) (qualified_identifier)] @name))
  ]) @function
