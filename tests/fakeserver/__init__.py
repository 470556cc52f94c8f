# SPDX-License-Identifier: Apache-2.0
"""A model server on the loopback that answers the same every time. See `server`."""
