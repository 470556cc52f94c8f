# SPDX-License-Identifier: Apache-2.0
"""The one translation between the GenAI form and facts, the same for every dialect and every way in. Pure."""
