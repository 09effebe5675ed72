"""Two trees and a range of lines in, where the range is now and what became of it out.

Methods that know nothing of each other (lines and structure, history, anatomy) each say a place;
what they agree on is proven, everything else is proposed.
"""
