"""OpenTelemetry: spans and log records, sent by OTLP where the OTEL_* variables say."""
