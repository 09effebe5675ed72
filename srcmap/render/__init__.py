"""Results to text, Markdown and JSON: pages of plain data in, strings out.

A command collects a page (`interface`), a renderer (`as_text`, `as_markdown`, `as_json`) turns it
into one string, and `console` writes that string and knows the terminal. Nothing here reads files.
"""
