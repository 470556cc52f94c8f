# SPDX-License-Identifier: Apache-2.0
"""Into a running Sediment: over HTTP (`gateway`), or straight into its database (`database`)."""
