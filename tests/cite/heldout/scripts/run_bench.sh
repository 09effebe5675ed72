#!/bin/sh
python bench.py
