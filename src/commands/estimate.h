#pragma once
// `codecfs recode --estimate`: what several filter pipelines would gain, measured on a sample of a variable's chunks.

#include <cstdint>
#include <string>
#include <vector>

#include "backends/api/source.h"
#include "base/result.h"
#include "commands/variable_comparison.h"

namespace codecfs::commands {

struct Candidate {
  std::string spec;        // "shuffle|zstd,3"; "none"
  bool is_stored = false;  // it is the pipeline of the variable
  bool is_recommended = false;
  uint64_t encoded_bytes = 0;  // of the sample
  double encode_seconds = 0;   // processor time of one core
  double decode_seconds = 0;
  std::string unusable;  // why it cannot be used; else empty
};

struct Estimate {
  std::string path;
  uint64_t chunks = 0;         // in the sample
  uint64_t decoded_bytes = 0;  // of the sample
  std::vector<Candidate> candidates;
};

/// Encodes and decodes evenly spread chunks of a variable with each pipeline (specs), and checks that they come back.
/// The sample has at most 64 chunks and 64 MiB, but at least one chunk. Of the pipelines that
/// decode at least half as fast as the stored one (as deflate if none is stored), it recommends the fastest of those
/// with a result within 5 % of the smallest. ENOENT if no chunk is stored; ECANCELED.
Result<Estimate> estimate(const VariableOf& variable, const std::string& path, const std::vector<std::string>& specs);

/// The pipelines that are tried by default.
const std::vector<std::string>& usual_specs();

/// A table.
std::string estimate_text(const Estimate& estimate);

}  // namespace codecfs::commands
