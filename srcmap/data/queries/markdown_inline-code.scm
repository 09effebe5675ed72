; Code inside prose.
(code_span) @code
