# SPDX-License-Identifier: Apache-2.0
"""Where telemetry is read from: files, directories, URLs, standard input."""
