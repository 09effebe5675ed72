#!/bin/sh
# runs the lse check of the reading group
python3 -m pytest -q
