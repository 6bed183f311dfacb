#pragma once
// The processes in which sources are read.

#include <string>

namespace codecfs {

/// Starts the processes from which workers are forked. Should be called before any thread is created; otherwise they
/// are started when they are first needed.
void prepare_sources();

/// How the processes of isolated HDF5 files are protected against the files that they read.
struct SourceProtections {
  std::string text;       // a sentence; empty if there were no such processes so far
  bool is_whole = false;  // else a warning was logged
};
SourceProtections protections_of_sources();

}  // namespace codecfs
