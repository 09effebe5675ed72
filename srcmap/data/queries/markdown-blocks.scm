; The blocks of a document, whatever they stand in. @other is what only takes room.
(atx_heading) @heading
(setext_heading) @heading
(pipe_table) @table
(paragraph) @paragraph
(list) @list
[(fenced_code_block) (indented_code_block) (html_block)] @other
