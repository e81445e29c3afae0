# SPDX-License-Identifier: Apache-2.0
"""Measurement: what a context manager does to a policy, counted over recorded runs (paper III-B to III-F).

The lab reads recorded traces, places a policy, drives the real native classes and this project's drop-ins
over every recorded model call, and counts what a reader sees that knows nothing of either. Importing this
package loads no framework; the modules that need one are imported when a trace of that framework is replayed.
"""
