# SPDX-License-Identifier: Apache-2.0
"""Provider message shapes met inside dialects, each read in one place, all yielding the GenAI form."""
