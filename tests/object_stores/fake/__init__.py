"""An S3 server for tests: it checks signatures, counts every request, and fails on demand. README.md describes its control interface."""
