; A call with a string among its arguments: registrations are calls of this kind.
; @callee is what is called, @name the string's text, @call the whole.
(call_expression
  function: (_) @callee
  arguments: (argument_list (string_literal (string_content) @name))) @call
