// What LeakSanitizer does not report in unit tests.

// libhdf5 1.10 has a stack of errors for each thread, and does not free their texts when a thread ends that has seen
// one.
extern "C" const char* __lsan_default_suppressions() { return "leak:H5MM_xstrdup\n"; }
