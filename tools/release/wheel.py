#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the wheel of the tree that QUARRY_PREFIX names, without pip, whose own files have times in them: wheel.py FOLDER"""
import os
import sys

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(root, "bindings", "python", "build_wheel"))
import wheel_backend  # noqa: E402

print(wheel_backend.build_wheel(os.path.abspath(sys.argv[1])))
