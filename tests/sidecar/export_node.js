// SPDX-License-Identifier: Apache-2.0
// OTLP JSON on standard input, one request a line, through the exporters of OpenTelemetry JS:
//     node export_node.js grpc|http|proto URL
// Node finds the packages through NODE_PATH.
'use strict';
const [kind, url] = process.argv.slice(2);
const suffix = { grpc: 'grpc', http: 'http', proto: 'proto' }[kind];
const { OTLPTraceExporter } = require(`@opentelemetry/exporter-trace-otlp-${suffix}`);
const { OTLPLogExporter } = require(`@opentelemetry/exporter-logs-otlp-${suffix}`);
const end = (path) => ({ url: kind === 'grpc' ? url : `${url}${path}` });

function value(any) {
  if (any === undefined || any === null) return undefined;
  if ('stringValue' in any) return any.stringValue;
  if ('boolValue' in any) return any.boolValue;
  if ('intValue' in any) return Number(any.intValue);
  if ('doubleValue' in any) return Number(any.doubleValue);
  if ('bytesValue' in any) return new Uint8Array(Buffer.from(any.bytesValue, 'base64'));
  if ('arrayValue' in any) return (any.arrayValue.values || []).map(value);
  if ('kvlistValue' in any) return attributes(any.kvlistValue.values);
  return undefined;
}
const attributes = (pairs) => Object.fromEntries((pairs || []).map((pair) => [pair.key, value(pair.value)]));
function time(text) {
  const ns = BigInt(text || '0');
  return [Number(ns / 1000000000n), Number(ns % 1000000000n)];
}
const state = (text) => (text ? { serialize: () => text } : undefined);
const context = (traceId, spanId, text) => ({ traceId, spanId, traceFlags: 1, traceState: state(text) });

function spansOf(request) {
  const found = [];
  for (const group of request.resourceSpans || []) {
    const resource = { attributes: attributes((group.resource || {}).attributes), schemaUrl: group.schemaUrl };
    for (const scoped of group.scopeSpans || []) {
      const scope = scoped.scope || {};
      const instrumentationScope = {
        name: scope.name || '', version: scope.version, schemaUrl: scoped.schemaUrl, attributes: attributes(scope.attributes),
      };
      for (const span of scoped.spans || []) {
        found.push({
          name: span.name || '',
          kind: Math.max((span.kind || 0) - 1, 0),
          spanContext: () => context(span.traceId, span.spanId, span.traceState),
          parentSpanContext: span.parentSpanId ? context(span.traceId, span.parentSpanId) : undefined,
          startTime: time(span.startTimeUnixNano),
          endTime: time(span.endTimeUnixNano),
          duration: [0, 0],
          ended: true,
          status: { code: (span.status || {}).code || 0, message: (span.status || {}).message },
          attributes: attributes(span.attributes),
          events: (span.events || []).map((event) => ({
            name: event.name || '', time: time(event.timeUnixNano), attributes: attributes(event.attributes),
          })),
          links: (span.links || []).map((link) => ({
            context: context(link.traceId, link.spanId), attributes: attributes(link.attributes),
          })),
          droppedAttributesCount: span.droppedAttributesCount || 0,
          droppedEventsCount: span.droppedEventsCount || 0,
          droppedLinksCount: span.droppedLinksCount || 0,
          resource,
          instrumentationScope,
        });
      }
    }
  }
  return found;
}

function recordsOf(request) {
  const found = [];
  for (const group of request.resourceLogs || []) {
    const resource = { attributes: attributes((group.resource || {}).attributes), schemaUrl: group.schemaUrl };
    for (const scoped of group.scopeLogs || []) {
      const scope = scoped.scope || {};
      const instrumentationScope = {
        name: scope.name || '', version: scope.version, schemaUrl: scoped.schemaUrl, attributes: attributes(scope.attributes),
      };
      for (const record of scoped.logRecords || []) {
        found.push({
          hrTime: time(record.timeUnixNano),
          hrTimeObserved: time(record.observedTimeUnixNano),
          spanContext: record.traceId || record.spanId ? context(record.traceId, record.spanId) : undefined,
          severityNumber: record.severityNumber,
          severityText: record.severityText,
          body: value(record.body),
          eventName: record.eventName,
          attributes: attributes(record.attributes),
          droppedAttributesCount: record.droppedAttributesCount || 0,
          resource,
          instrumentationScope,
        });
      }
    }
  }
  return found;
}

const exported = (exporter, items) => new Promise((done, failed) => {
  exporter.export(items, (result) => (result.code === 0 ? done() : failed(result.error || new Error('refused'))));
});

async function main() {
  const traces = new OTLPTraceExporter(end('/v1/traces'));
  const logs = new OTLPLogExporter(end('/v1/logs'));
  const lines = require('fs').readFileSync(0, 'utf8').split('\n').filter(Boolean);
  for (const line of lines) {
    const request = JSON.parse(line);
    if (request.resourceLogs) await exported(logs, recordsOf(request));
    if (request.resourceSpans) await exported(traces, spansOf(request));
  }
  await traces.shutdown();
  await logs.shutdown();
}
main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
