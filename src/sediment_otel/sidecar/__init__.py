# SPDX-License-Identifier: Apache-2.0
"""The sidecar: OTLP in over gRPC and HTTP, facts out, nothing lost in between.

    receivers ──▶ journal (on disk before the reply) ──▶ translator process ──▶ store ──▶ sinks

`service` puts the rooms together; every other module has one duty and no knowledge of the others' insides.
"""
