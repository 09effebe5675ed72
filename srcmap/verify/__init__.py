"""The diff test: upstream's kernels, its own references and ours on the same inputs.

`plan` says which files are run for which variants; `results` keeps what came out, with the digests
of what it rests on; `mutation` changes upstream one statement at a time and asks who notices.
"""
