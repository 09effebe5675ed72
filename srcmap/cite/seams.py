"""The seams of prose: where sentences, clauses and quotations begin and end."""

from __future__ import annotations

import re

_SHORTENED = "".join(
    rf"(?<!\b{word})" for word in ("[Ii]bid", "e\\.g", "i\\.e", "[Cc]f", "vs", "[Ff]ig", "[Ss]ec")
)
END = re.compile(
    rf"[。！？](?![」』”])|(?:[!?]|{_SHORTENED}\.)(?=\s|\Z)"
    r"|[:：][ \t*]*\r?\n(?!\s*[`\\])|\n[ \t]*\r?\n|；\s*\n"
)
ITEM = re.compile(r"([ \t>#]*)(?:[-*+•]|\d+[.)])[ \t]+(?![-*+•][ \t])\S")
"""A line that begins an item of a list."""
CELLS = re.compile(r"^[ \t]*\*[ \t]+-[ \t]", re.MULTILINE)
"""The row of a table that is written as a list."""
CLOSED = re.compile(r"[`*)）\]」。.]+\s*\n")
"""A reference at the end of its line: what follows is about something else."""
CLOSES = re.compile(r"[`*)）\]]*(?:\.\s|。)")
"""A reference that ends its sentence."""
COMMA = re.compile(r"[,，、;；]\s*(?:and\s+|而\s?|then\s+)?(?:第|[Ll]ines?\s|行\s?)?[\s`*\\]*\Z")
LISTED = re.compile(r"[`*]*\s*(?:[:：]|–|—|->|→)\s*\S")
PIECE = re.compile(r"[,，;；。、]|\.(?:\s|\Z)|\n")
QUOTATION = re.compile(
    r"“[^”]{12,400}”|「[^」]{8,400}」|『[^』]{8,400}』|(?<!\w)\"[^\"\n]{12,200}\"(?!\w)"
    r"|(?<!`)``[^`]{12,400}?''"
)
MARKUP = re.compile(r":\w+:(?=`)|\\\w+\*?\{|\\verb\W")
TITLE = re.compile(r"\s*#{1,6}\s")
"""A heading, when nothing is between it and a citation; else a comment in code."""
GOES_ON = re.compile(
    r"\W*(?:(?:(?:that|this|it|which|these)(?:\s(?:line|code|loop|block|statement|one|is"
    r"|snippet|listing|excerpt|fragment))?\s)?"
    r"(?:is|are|stands?|sits?|comes?|lives?)(?:\s(?:at|in|from|on|found\s(?:at|in)))?|at|in|on"
    r"|(?:这|以上|上面)?(?:一?[段行句]|几行)?(?:代码)?"
    r"(?:就?在|位于|来自|出自|是|即|取自|摘自|对应|的位置是))\W*(?::\w+:)?\W*\Z",
    re.IGNORECASE,
)
"""Between code and a reference that goes on with its sentence."""
PARTING = re.compile(r"[,，;；。]|\b(?:and|while|then|followed by)\b|[与和而及]|然后|再到?")
SHOWN = re.compile(
    r"\W*(?:(?:that|this|the)\s(?:code|snippet|listing|excerpt|fragment)(?:\sabove)?\s(?:is|comes|stands)"
    r"(?:\s(?:at|in|from|on))?"
    r"|(?:上面|以上|前面)?的?[这那](?:一?段|几行)代码(?:就?在|位于|来自|出自|是|取自|摘自))",
    re.IGNORECASE,
)
"""What speaks of the code that was shown last, whatever stands between that is no code."""
GROUP = re.compile(r"[`*]{0,2}\s?(?:行\s?)?[(（][^()（）\n]{1,60}[)）]")
"""Brackets right behind a reference say what is there."""
IN_LINK = re.compile(r"[`*\s]*(?:\]\(\s*<?|\s<|\}\s*\{(?:\\\w+\s*\{)*)\Z")
